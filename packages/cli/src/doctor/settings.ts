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
      help: 'the probe election, for users whose rights cover only some elections; flag only',
      shownDefault: 'tenure-doctor, or tenure-doctor-2 and so on',
      withoutVariable: true,
    },
    nameOf,
  ),
  calls: setting({ placeholder: 'number', help: 'how many calls of each kind to measure' }, countOf, 30),
  json,
}
