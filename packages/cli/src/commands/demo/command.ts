import type { Declaration } from '../../shared/arguments/declare.ts'
import { parseDuration } from '../../shared/arguments/durations.ts'
import { setting } from '../../shared/arguments/settings.ts'

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

/** `tenure demo`: shows failovers between three candidates. */
export const demoCommand: Declaration = {
  name: 'demo',
  summary: 'Watch three candidates while the leader is killed, paused or cut off.',
  settings: demoSettings,
  examples: ['tenure demo', 'tenure demo --harm-every 2s --end-after 30s'],
  notes: [
    'The candidates are local processes on the file store. Keys: k kills the leader, p pauses it, c cuts it off',
    'from its store, s stops it cleanly, q quits.',
    '',
  ],
  exitCodes: '0 on success, 2 for invalid usage, 128 + n for a signal',
  run: async (flags) => (await import('./demo.ts')).demo(flags),
}
