import { join } from 'node:path'
import type { Declaration } from '../../shared/arguments/declare.ts'
import { lifetimeOf } from '../../shared/arguments/durations.ts'
import { usageError } from '../../shared/arguments/errors.ts'
import { commaSetting, setting, settingsFrom, type Sources } from '../../shared/arguments/settings.ts'
import { hostOf, pathOf } from '../../shared/arguments/values.ts'
import { wallMs } from '../../shared/clock.ts'
import { print, timestamp } from '../../shared/output.ts'
import { writeNewFiles } from '../../shared/secret-files.ts'

const dayMs = 86_400_000

export const certSettings = {
  host: commaSetting(
    {
      placeholder: 'names',
      help: 'the names and addresses that clients use for the service, separated by commas: one.example,10.0.0.7',
    },
    hostOf,
  ),
  lifetime: setting(
    { placeholder: 'duration', help: 'how long the certificate is valid, at most 3650d', shownDefault: '730d' },
    lifetimeOf({ mostDays: 3650 }),
    730 * dayMs,
  ),
  out: setting({ placeholder: 'directory', help: 'where to write service.pem and service.key' }, pathOf),
}

/** `tenure cert`: creates a server certificate without a CA. */
export const certCommand: Declaration = {
  name: 'cert',
  summary: 'Create a self-signed certificate for "tenure serve" that clients trust through --ca-file.',
  settings: certSettings,
  examples: ['tenure cert --host one.example,10.0.0.7 --out .'],
  notes: [
    "It writes two files. Keep service.key on the service's machine, as its --tls-key.",
    'service.pem is not secret: it is the --tls-cert of the service and the --ca-file of every client.',
    'It cannot sign other certificates, so clients that trust it trust only this service.',
    'To replace it, first put both the old and the new service.pem into the --ca-file of the clients.',
  ],
  exitCodes: '0 on success, 1 if a file already exists, 2 for invalid usage',
  run: (flags) => cert(flags),
}

/** Creates a self-signed certificate and writes it next to its key. */
async function cert(flags: Sources['flags']): Promise<void> {
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
  const { makeCertificate } = await import('./certificate.ts')
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
