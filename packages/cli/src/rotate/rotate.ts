import { unavailable, usageError } from '../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { print } from '../shared/output.ts'
import { rotateSettings } from './settings.ts'

/** Takes one step in replacing the secret of the replicas. */
export async function rotate(flags: Sources['flags']): Promise<void> {
  const { store } = settingsFrom(rotateSettings, flags)
  if (store === undefined) throw usageError(['--store must be given.'])
  const { rotateSecret } = await import('@tenure/service')
  const { redactedUrl } = await import('tenure/stores')
  await rotateSecret({ store }).catch((error: unknown) => {
    throw unavailable(error)
  })
  print(`${redactedUrl(store)} has a new secret. Restart every replica now, one after another, before the next step.`)
}
