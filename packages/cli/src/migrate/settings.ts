import { setting } from '../shared/arguments/settings.ts'
import { textOf } from '../shared/arguments/values.ts'

export const migrateSettings = {
  from: setting({ placeholder: 'place', help: 'the data directory, or the URL of an etcd or PostgreSQL' }, textOf),
  to: setting({ placeholder: 'place', help: 'the same kinds of place; it must be empty' }, textOf),
}
