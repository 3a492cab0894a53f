import { serveSettings } from '../serve/settings.ts'
import { setting } from '../shared/arguments/settings.ts'
import { pathOf } from '../shared/arguments/values.ts'

export const backupSettings = {
  data: { ...serveSettings.data, alias: 'from' },
  to: setting(
    { placeholder: 'directory', help: 'the directory to create for the backup; it must not exist yet' },
    pathOf,
  ),
}
