import { lifetimeOf } from '../shared/arguments/durations.ts'
import { commaSetting, setting, toggle } from '../shared/arguments/settings.ts'
import { json, serviceSettings } from '../shared/arguments/store-settings.ts'
import { fileOf, pathOf, textOf } from '../shared/arguments/values.ts'

export const keySettings = {
  out: setting({ placeholder: 'file', help: 'the file for the private key; the public key goes to FILE.pub' }, pathOf),
}

export const signSettings = {
  key: setting({ placeholder: 'file', help: 'the private key from "tenure token key"' }, fileOf),
  node: setting(
    { placeholder: 'name', help: 'the node that the token is for: the --identity of that machine' },
    textOf,
  ),
  groups: commaSetting(
    { placeholder: 'names', help: 'the elections that the node may join, separated by commas: payments,reports-*' },
    (text) => textOf(text),
  ),
  reader: toggle('may read all elections and metrics'),
  admin: toggle('may define and delete elections, revoke tokens, and read everything'),
  lifetime: setting(
    { placeholder: 'duration', help: 'how long the token is valid, at most 366d', shownDefault: '30d' },
    lifetimeOf({ mostDays: 366 }),
  ),
  out: setting({ placeholder: 'file', help: 'the file for the token' }, pathOf),
  json,
}

export const showSettings = { json }

export const revokeSettings = { ...serviceSettings, json }
