import { serveSettings } from '../serve/settings.ts'
import { setting } from '../shared/arguments/settings.ts'
import { pathOf } from '../shared/arguments/values.ts'

export const backupSettings = {
  data: { ...serveSettings.data, alias: 'from' },
  to: setting({ placeholder: 'directory', help: 'where the backup goes; a directory that does not exist yet' }, pathOf),
}
