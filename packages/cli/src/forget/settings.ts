import { toggle } from '../shared/arguments/settings.ts'
import { json, storeSettings } from '../shared/arguments/store-settings.ts'

const help =
  'remove the highest term too: terms begin again at 1, and a resource that checks them refuses the next leaders; by flag only'

export const forgetSettings = {
  ...storeSettings,
  withTerm: { ...toggle(help), withoutVariable: true },
  json,
}
