import { unavailable, usageError } from '../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { print } from '../shared/output.ts'
import { defaultData } from '../serve/settings.ts'
import { restoreSettings } from './settings.ts'

/** Skips terms, so that a service accepts the data. */
export async function restore(flags: Sources['flags']): Promise<void> {
  const { data, store } = settingsFrom(restoreSettings, flags)
  if (data !== undefined && store !== undefined) throw usageError(['--data and --store are mutually exclusive.'])
  const { restoreData, restoreShared } = await import('@tenure/service')
  const { redactedUrl } = await import('tenure/stores')
  const place = store === undefined ? (data ?? defaultData) : redactedUrl(store)
  const restored = store === undefined ? restoreData({ data: place }) : restoreShared({ store })
  await restored.catch((error: unknown) => {
    throw unavailable(error)
  })
  print(`Skipped a million terms in every election of ${place}. A service can use it now.`)
}
