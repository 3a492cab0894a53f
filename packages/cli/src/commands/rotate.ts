import type { Declaration } from '../shared/arguments/declare.ts'
import { unavailable, usageError } from '../shared/arguments/errors.ts'
import { setting, settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { textOf } from '../shared/arguments/values.ts'
import { loadServiceTools } from '../shared/optional-packages.ts'
import { print } from '../shared/output.ts'

export const rotateSettings = {
  store: setting({ placeholder: 'url', help: 'the etcd or PostgreSQL that the replicas share' }, textOf),
}

/** `tenure rotate`: replaces the shared secret of a service's replicas. */
export const rotateCommand: Declaration = {
  name: 'rotate',
  summary: 'Rotate the secret with which the replicas of a service authenticate each other, in three steps.',
  settings: rotateSettings,
  examples: ['tenure rotate --store etcd://10.0.0.1:2379/tenure'],
  notes: [
    'Run it three times. After each run, restart every replica, one after another. No lease is lost.',
    'After the third round, the old secret is no longer accepted.',
  ],
  exitCodes: '0 on success, 2 for invalid options, 69 if the data cannot be used',
  run: (flags) => rotate(flags),
}

/** Performs one step of the secret rotation. */
async function rotate(flags: Sources['flags']): Promise<void> {
  const { store } = settingsFrom(rotateSettings, flags)
  if (store === undefined)
    throw usageError(['--store is missing. Name the etcd or PostgreSQL that the replicas share.'])
  const { rotateSecret } = await loadServiceTools('tenure rotate')
  const { redactedUrl } = await import('tenure/stores')
  await rotateSecret({ store }).catch((error: unknown) => {
    throw unavailable(error)
  })
  print(`${redactedUrl(store)} has a new secret. Restart every replica, one after another, before the next step.`)
}
