import { unavailable, usageError } from '../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { print } from '../shared/output.ts'
import { rotateSettings } from './settings.ts'

/** Performs one step of the secret rotation. */
export async function rotate(flags: Sources['flags']): Promise<void> {
  const { store } = settingsFrom(rotateSettings, flags)
  if (store === undefined)
    throw usageError(['--store is missing. Name the etcd or PostgreSQL that the replicas share.'])
  const { rotateSecret } = await import('@tenure/service')
  const { redactedUrl } = await import('tenure/stores')
  await rotateSecret({ store }).catch((error: unknown) => {
    throw unavailable(error)
  })
  print(`${redactedUrl(store)} has a new secret. Restart every replica, one after another, before the next step.`)
}
