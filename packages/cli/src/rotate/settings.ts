import { setting } from '../shared/arguments/settings.ts'
import { textOf } from '../shared/arguments/values.ts'

export const rotateSettings = {
  store: setting({ placeholder: 'url', help: 'the etcd or PostgreSQL that the replicas share' }, textOf),
}
