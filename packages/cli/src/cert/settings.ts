import { lifetimeOf } from '../shared/arguments/durations.ts'
import { commaSetting, setting } from '../shared/arguments/settings.ts'
import { hostOf, pathOf } from '../shared/arguments/values.ts'

const dayMs = 86_400_000

export const certSettings = {
  host: commaSetting(
    {
      placeholder: 'names',
      help: 'the names and addresses that clients use for the service, separated by commas: one.example,10.0.0.7',
    },
    hostOf,
  ),
  lifetime: setting(
    { placeholder: 'duration', help: 'how long the certificate is valid, at most 3650d', shownDefault: '730d' },
    lifetimeOf({ mostDays: 3650 }),
    730 * dayMs,
  ),
  out: setting({ placeholder: 'directory', help: 'where to write service.pem and service.key' }, pathOf),
}
