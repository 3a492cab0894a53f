import { toggle } from '../shared/arguments/settings.ts'
import { json, storeSettings } from '../shared/arguments/store-settings.ts'

const help =
  'also remove the highest term: terms start again at 1, and a resource that checks terms rejects the next leaders; flag only'

export const forgetSettings = {
  ...storeSettings,
  withTerm: { ...toggle(help), withoutVariable: true },
  json,
}
