import { setting } from '../shared/arguments/settings.ts'
import { hostIdentity, json, serviceSettings } from '../shared/arguments/store-settings.ts'
import { termOf } from '../shared/arguments/values.ts'

export const resignSettings = {
  ...serviceSettings,
  identity: hostIdentity,
  term: setting(
    {
      placeholder: 'number',
      help: 'the term to end; flag only',
      shownDefault: 'the current term',
      withoutVariable: true,
    },
    termOf,
  ),
  json,
}
