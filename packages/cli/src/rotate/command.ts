import type { Declaration } from '../shared/arguments/declare.ts'
import { rotateSettings } from './settings.ts'

/** `tenure rotate`: the secret of the replicas of a service. */
export const rotateCommand: Declaration = {
  name: 'rotate',
  summary: 'Replace the secret by which the replicas of a service know each other, in three steps.',
  settings: rotateSettings,
  examples: ['tenure rotate --store etcd://10.0.0.1:2379/tenure'],
  notes: [
    'Restart every replica after it, one after another, before it is run again. No lease is lost.',
    'After three times nothing of the secrets of before is accepted any more.',
  ],
  exitCodes: '0, 2 for wrong options, 69 if the data cannot be used',
  run: async (flags) => (await import('./rotate.ts')).rotate(flags),
}
