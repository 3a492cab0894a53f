import { parseDuration } from '../shared/arguments/durations.ts'
import { setting } from '../shared/arguments/settings.ts'

export const demoSettings = {
  endAfter: setting(
    { placeholder: 'duration', help: 'end by itself', shownDefault: 'never on a terminal, else 20s' },
    parseDuration,
  ),
  harmEvery: setting(
    { placeholder: 'duration', help: 'harm the leader this long after its election', shownDefault: '6s' },
    parseDuration,
    6_000,
  ),
}
