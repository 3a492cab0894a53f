import { setting } from '../shared/arguments/settings.ts'
import { textOf } from '../shared/arguments/values.ts'
import { serveSettings } from '../serve/settings.ts'

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
