import { unavailable, usageError } from '../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { print } from '../shared/output.ts'
import { defaultData } from '../serve/settings.ts'
import { backupSettings } from './settings.ts'

/** Copies the data of a service into a new directory. */
export async function backup(flags: Sources['flags']): Promise<void> {
  const { data = defaultData, to } = settingsFrom(backupSettings, flags)
  if (to === undefined) throw usageError(['--to is missing. Name the directory for the backup.'])
  const { backupData } = await import('@tenure/service')
  await backupData({ data, to }).catch((error: unknown) => {
    throw unavailable(error)
  })
  print(`Backed up ${data} to ${to}. Run "tenure restore --data ${to}" before a service uses the backup.`)
}
