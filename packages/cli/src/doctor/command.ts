import type { Declaration } from '../shared/arguments/declare.ts'
import { doctorSettings } from './settings.ts'

/** `tenure doctor`: whether a store can be used, and with which timings. */
export const doctorCommand: Declaration = {
  name: 'doctor',
  summary: 'Find out whether a store is safe to use from here.',
  settings: doctorSettings,
  examples: [
    'tenure doctor --store kubernetes://jobs',
    'tenure doctor --store https://elections.example.com --ttl 3s --identity node-17',
  ],
  notes: ['It leads an election of its own for some seconds, and releases it. A running leader is left alone.', ''],
  exitCodes:
    '0 if it is safe, 1 if it is not, 2 for a wrong command, 69 if the store cannot be used, 128 + n for a signal',
  run: async (flags) => (await import('./doctor.ts')).doctor(flags),
}
