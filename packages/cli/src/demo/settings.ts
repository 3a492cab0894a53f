import { parseDuration } from '../shared/arguments/durations.ts'
import { setting } from '../shared/arguments/settings.ts'

export const demoSettings = {
  endAfter: setting(
    { placeholder: 'duration', help: 'exit after this time', shownDefault: 'never on a terminal, else 20s' },
    parseDuration,
  ),
  harmEvery: setting(
    {
      placeholder: 'duration',
      help: 'how long after an election to inject the next fault into the leader',
      shownDefault: '6s',
    },
    parseDuration,
    6_000,
  ),
}
