import { defaultData, serveSettings } from './serve/settings.ts'
import type { Declaration } from '../shared/arguments/declare.ts'
import { unavailable, usageError } from '../shared/arguments/errors.ts'
import { setting, settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { textOf } from '../shared/arguments/values.ts'
import { loadServiceTools } from '../shared/optional-packages.ts'
import { print } from '../shared/output.ts'

export const restoreSettings = {
  data: serveSettings.data,
  store: setting(
    {
      placeholder: 'url',
      help: 'instead of --data: the etcd or PostgreSQL that replicas share, after its own backup was restored',
    },
    textOf,
  ),
}

/** `tenure restore`: prepares a backup for use by a service. */
export const restoreCommand: Declaration = {
  name: 'restore',
  summary: 'Prepare a backup, or data that was copied or rolled back, for use by a service.',
  settings: restoreSettings,
  examples: ['tenure restore --data /var/lib/tenure', 'tenure restore --store etcd://10.0.0.1:2379/tenure'],
  notes: [
    'Terms granted since the backup are unknown, so restore skips a million terms in every election.',
    'First stop the service that the data comes from, and wait for the longest lease in use.',
  ],
  exitCodes: '0 on success, 2 for invalid options, 69 if the data cannot be used',
  run: (flags) => restore(flags),
}

/** Skips terms, so that a service accepts the data. */
async function restore(flags: Sources['flags']): Promise<void> {
  const { data, store } = settingsFrom(restoreSettings, flags)
  if (data !== undefined && store !== undefined) throw usageError(['--data and --store are mutually exclusive.'])
  const { restoreData, restoreShared } = await loadServiceTools('tenure restore')
  const { redactedUrl } = await import('tenure/stores')
  const place = store === undefined ? (data ?? defaultData) : redactedUrl(store)
  const restored = store === undefined ? restoreData({ data: place }) : restoreShared({ store })
  await restored.catch((error: unknown) => {
    throw unavailable(error)
  })
  print(`Skipped a million terms in every election of ${place}. A service can use it now.`)
}
