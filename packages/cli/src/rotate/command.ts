import type { Declaration } from '../shared/arguments/declare.ts'
import { rotateSettings } from './settings.ts'

/** `tenure rotate`: replaces the shared secret of a service's replicas. */
export const rotateCommand: Declaration = {
  name: 'rotate',
  summary: 'Rotate the secret with which the replicas of a service authenticate each other, in three steps.',
  settings: rotateSettings,
  examples: ['tenure rotate --store etcd://10.0.0.1:2379/tenure'],
  notes: [
    'Run it three times. After each run, restart every replica, one after another. No lease is lost.',
    'After the third round, the old secret is no longer accepted.',
  ],
  exitCodes: '0 on success, 2 for invalid options, 69 if the data cannot be used',
  run: async (flags) => (await import('./rotate.ts')).rotate(flags),
}
