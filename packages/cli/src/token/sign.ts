import type { ErrorDetails } from 'tenure'
import { CommandError, exitCodes, usageError } from '../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { print, printJson, timestamp } from '../shared/output.ts'
import { readSecretFile, writeNewFiles } from '../shared/secret-files.ts'
import { signSettings } from './settings.ts'

/** Signs a token and writes it to a file. */
export async function sign(flags: Sources['flags']): Promise<void> {
  const { key, node, out, lifetime: lifetimeMs, json, ...rights } = settingsFrom(signSettings, flags)
  if (key === undefined || node === undefined || out === undefined) {
    const missing = Object.entries({ '--key': key, '--node': node, '--out': out })
    throw usageError(missing.filter(([, value]) => value === undefined).map(([flag]) => `${flag} is missing.`))
  }
  const { signToken } = await import('@tenure/service')
  const signed = await signToken(readSecretFile(key), { node, lifetimeMs, ...rights }).catch((error: unknown) => {
    throw translate(error, key)
  })
  writeNewFiles([{ path: out, text: `${signed.token}\n`, isSecret: true }])
  const { id, expiresAtMs } = signed
  if (json) return printJson({ id, node, expires_at_ms: expiresAtMs, file: out })
  print(`${out} is for ${node}, until ${timestamp(expiresAtMs)}. Its id is ${id}`)
}

/** Converts a library error to command-line terms. */
function translate(error: unknown, key: string): unknown {
  const { option, rule, message } = error as Error & ErrorDetails
  if (option === undefined) return error
  const text = option === 'privateKey' ? `--key: ${key} ${rule}` : message.replace(option, `--${option}`)
  return new CommandError(text, exitCodes.usage, { cause: error })
}
