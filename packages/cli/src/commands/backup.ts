import { defaultData, serveSettings } from './serve/settings.ts'
import type { Declaration } from '../shared/arguments/declare.ts'
import { unavailable, usageError } from '../shared/arguments/errors.ts'
import { setting, settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { pathOf } from '../shared/arguments/values.ts'
import { loadServiceTools } from '../shared/optional-packages.ts'
import { print } from '../shared/output.ts'

export const backupSettings = {
  data: { ...serveSettings.data, alias: 'from' },
  to: setting(
    { placeholder: 'directory', help: 'the directory to create for the backup; it must not exist yet' },
    pathOf,
  ),
}

/** `tenure backup`: copies a service's data. */
export const backupCommand: Declaration = {
  name: 'backup',
  summary: 'Back up the data of a service, running or stopped.',
  settings: backupSettings,
  examples: ['tenure backup --data /var/lib/tenure --to /backup/tenure-monday'],
  notes: ['The backup is consistent and verified. Run "tenure restore" on it before a service uses it.'],
  exitCodes: '0 on success, 2 for invalid options, 69 if the data cannot be used',
  run: (flags) => backup(flags),
}

/** Copies the data of a service into a new directory. */
async function backup(flags: Sources['flags']): Promise<void> {
  const { data = defaultData, to } = settingsFrom(backupSettings, flags)
  if (to === undefined) throw usageError(['--to is missing. Name the directory for the backup.'])
  const { backupData } = await loadServiceTools('tenure backup')
  await backupData({ data, to }).catch((error: unknown) => {
    throw unavailable(error)
  })
  print(`Backed up ${data} to ${to}. Run "tenure restore --data ${to}" before a service uses the backup.`)
}
