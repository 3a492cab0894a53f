import { lifetimeOf } from '../shared/arguments/durations.ts'
import { commaSetting, setting, toggle } from '../shared/arguments/settings.ts'
import { json, serviceSettings } from '../shared/arguments/store-settings.ts'
import { fileOf, pathOf, textOf } from '../shared/arguments/values.ts'

export const keySettings = {
  out: setting({ placeholder: 'file', help: 'where to write the private key; the public one is FILE.pub' }, pathOf),
}

export const signSettings = {
  key: setting({ placeholder: 'file', help: 'the private key, of "tenure token key"' }, fileOf),
  node: setting({ placeholder: 'name', help: 'who it is for: the --identity of that machine' }, textOf),
  groups: commaSetting(
    { placeholder: 'names', help: 'the elections in which it takes part: payments,reports-*' },
    (text) => textOf(text),
  ),
  reader: toggle('sees all elections, and metrics'),
  admin: toggle('defines and deletes groups, revokes tokens, and sees all'),
  lifetime: setting(
    { placeholder: 'duration', help: 'how long it is valid, at most 366d', shownDefault: '30d' },
    lifetimeOf({ mostDays: 366 }),
  ),
  out: setting({ placeholder: 'file', help: 'where to write it' }, pathOf),
  json,
}

export const showSettings = { json }

export const revokeSettings = { ...serviceSettings, json }
