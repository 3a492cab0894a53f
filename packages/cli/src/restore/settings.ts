import { setting } from '../shared/arguments/settings.ts'
import { textOf } from '../shared/arguments/values.ts'
import { serveSettings } from '../serve/settings.ts'

export const restoreSettings = {
  data: serveSettings.data,
  store: setting(
    { placeholder: 'url', help: 'instead: the etcd or PostgreSQL of replicas, put back from a backup' },
    textOf,
  ),
}
