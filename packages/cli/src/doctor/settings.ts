import { setting } from '../shared/arguments/settings.ts'
import { hostIdentity, json, storeSettings, ttl } from '../shared/arguments/store-settings.ts'
import { countOf, nameOf } from '../shared/arguments/values.ts'

export const doctorSettings = {
  ...storeSettings,
  ttl,
  identity: hostIdentity,
  election: setting(
    {
      placeholder: 'name',
      help: 'the election to lead meanwhile, where rights go by names; by flag only',
      shownDefault: 'tenure-doctor, or a number after it',
      withoutVariable: true,
    },
    nameOf,
  ),
  calls: setting({ placeholder: 'number', help: 'how many calls of each kind are measured' }, countOf, 30),
  json,
}
