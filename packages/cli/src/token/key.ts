import { usageError } from '../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { print } from '../shared/output.ts'
import { writeNewFiles } from '../shared/secret-files.ts'
import { keySettings } from './settings.ts'

/** Creates a key pair and writes both halves. */
export async function makeKey(flags: Sources['flags']): Promise<void> {
  const { out } = settingsFrom(keySettings, flags)
  if (out === undefined) throw usageError(['--out is missing. Name the file for the private key.'])
  const { createTokenKey } = await import('@tenure/service')
  const { privateKey, publicKey } = await createTokenKey()
  writeNewFiles([
    { path: out, text: privateKey, isSecret: true },
    { path: `${out}.pub`, text: publicKey, isSecret: false },
  ])
  print(`${out} signs tokens: keep it secret.\n${out}.pub verifies them: tenure serve --token-key ${out}.pub`)
}
