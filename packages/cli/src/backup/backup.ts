import { unavailable, usageError } from '../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { print } from '../shared/output.ts'
import { defaultData } from '../serve/settings.ts'
import { backupSettings } from './settings.ts'

/** Copies the data of a service. */
export async function backup(flags: Sources['flags']): Promise<void> {
  const { data = defaultData, to } = settingsFrom(backupSettings, flags)
  if (to === undefined) throw usageError(['--to is missing: it says where the backup goes.'])
  const { backupData } = await import('@tenure/service')
  await backupData({ data, to }).catch((error: unknown) => {
    throw unavailable(error)
  })
  print(`The data in ${data} were copied to ${to}. To serve them, run "tenure restore --data ${to}" first.`)
}
