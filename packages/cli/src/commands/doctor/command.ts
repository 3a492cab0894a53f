import type { Declaration } from '../../shared/arguments/declare.ts'
import { setting } from '../../shared/arguments/settings.ts'
import { hostIdentity, json, storeSettings, ttl } from '../../shared/arguments/store-settings.ts'
import { countOf, nameOf } from '../../shared/arguments/values.ts'

export const doctorSettings = {
  ...storeSettings,
  ttl,
  identity: hostIdentity,
  election: setting(
    {
      placeholder: 'name',
      help: 'the probe election, for users whose rights cover only some elections; flag only',
      shownDefault: 'tenure-doctor, or tenure-doctor-2 and so on',
      withoutVariable: true,
    },
    nameOf,
  ),
  calls: setting({ placeholder: 'number', help: 'how many calls of each kind to measure' }, countOf, 30),
  json,
}

/** `tenure doctor`: measures whether a store is safe to use, and with which timings. */
export const doctorCommand: Declaration = {
  name: 'doctor',
  summary: 'Check whether a store is safe to use from this machine.',
  settings: doctorSettings,
  examples: [
    'tenure doctor --store kubernetes://jobs',
    'tenure doctor --store https://elections.example.com --ttl 3s --identity node-17',
  ],
  notes: ['It leads a probe election for a few seconds and releases it. It never disturbs a running leader.', ''],
  exitCodes:
    '0 if the store is safe, 1 if it is not, 2 for invalid usage, 69 if the store is unavailable, 128 + n for a signal',
  run: async (flags) => (await import('./doctor.ts')).doctor(flags),
}
