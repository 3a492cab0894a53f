import { join } from 'node:path'
import { usageError } from '../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { wallMs } from '../shared/clock.ts'
import { print, timestamp } from '../shared/output.ts'
import { writeNewFiles } from '../shared/secret-files.ts'
import { makeCertificate } from './certificate.ts'
import { certSettings } from './settings.ts'

/** Creates a self-signed certificate and writes it next to its key. */
export async function cert(flags: Sources['flags']): Promise<void> {
  const { host: hosts, lifetime: lifetimeMs, out } = settingsFrom(certSettings, flags)
  if (hosts.length === 0 || out === undefined) {
    throw usageError([
      ...(hosts.length === 0
        ? ['--host is missing. List the names and addresses that clients use for the service.']
        : []),
      ...(out === undefined ? ['--out is missing. Name the directory to write to.'] : []),
    ])
  }
  const nowMs = wallMs()
  const { certificate, privateKey } = await makeCertificate({ hosts, nowMs, lifetimeMs })
  const files = { cert: join(out, 'service.pem'), key: join(out, 'service.key') }
  writeNewFiles([
    { path: files.key, text: privateKey, isSecret: true },
    { path: files.cert, text: certificate, isSecret: false },
  ])
  print(
    `Keep ${files.key} on this machine: tenure serve --tls-cert ${files.cert} --tls-key ${files.key}\n` +
      `Give ${files.cert} to every client as --ca-file. It is valid for ${hosts.join(', ')}, until ${timestamp(nowMs + lifetimeMs)}.`,
  )
}
