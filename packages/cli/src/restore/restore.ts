import { restoreData } from '@tenure/service'
import { unavailable } from '../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { print } from '../shared/output.ts'
import { defaultData } from '../serve/settings.ts'
import { restoreSettings } from './settings.ts'

/** Skips terms, so that a service can take the data. */
export async function restore(flags: Sources['flags']): Promise<void> {
  const { data = defaultData } = settingsFrom(restoreSettings, flags)
  await restoreData({ data }).catch((error: unknown) => {
    throw unavailable(error)
  })
  print(`A million terms are skipped in every group of ${data}. A service can take it now.`)
}
