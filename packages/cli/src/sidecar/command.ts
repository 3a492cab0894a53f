import type { Declaration } from '../shared/arguments/declare.ts'
import { sidecarSettings } from './settings.ts'

/** `tenure sidecar`: campaigns for a program beside it, which asks over HTTP whether it leads. */
export const sidecarCommand: Declaration = {
  name: 'sidecar',
  argument: '<election>',
  summary: 'Campaign for the program beside it, and answer over HTTP whether it leads.',
  settings: sidecarSettings,
  examples: [
    'tenure sidecar nightly-report --store kubernetes://jobs',
    'curl http://127.0.0.1:4040/leader      who leads, and for how long unless renewed',
    'curl -f http://127.0.0.1:4040/is-leader  200 if this one leads, 503 if not',
    'tenure sidecar nightly-report --listen unix:/run/tenure/jobs.sock',
  ],
  notes: [
    'The caller counts lease_remaining_ms from the moment of asking, and stops then unless it has asked again.',
    'SIGTERM: it answers no at once, waits until what it has answered before has run out, and releases the lease.',
    '',
  ],
  exitCodes: '0, 2 for a wrong command, 69 if the address is not available, 128 + n for a second signal',
  run: async (flags, name) => (await import('./sidecar.ts')).sidecar(name, flags),
}
