import { setting, toggle } from '../shared/arguments/settings.ts'
import { json, storeSettings } from '../shared/arguments/store-settings.ts'
import { countOf } from '../shared/arguments/values.ts'

export const watchSettings = {
  ...storeSettings,
  json,
  renewals: toggle('also print renewals'),
  changes: setting(
    { placeholder: 'number', help: 'exit after this many lines; the first is the current state' },
    countOf,
  ),
}
