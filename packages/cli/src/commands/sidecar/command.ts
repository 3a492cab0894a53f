import { parseListen } from '../../shared/arguments/addresses.ts'
import type { Declaration } from '../../shared/arguments/declare.ts'
import { setting } from '../../shared/arguments/settings.ts'
import {
  allowedHost,
  candidateStoreSettings,
  identity,
  jsonLog,
  metadata,
  metrics,
  ttl,
} from '../../shared/arguments/store-settings.ts'

export const sidecarSettings = {
  ...candidateStoreSettings,
  listen: setting(
    {
      placeholder: 'address',
      help: 'the address to listen on; :4040 is every address, unix:PATH is a Unix socket',
      shownDefault: '127.0.0.1:4040',
    },
    parseListen,
    { host: '127.0.0.1', port: 4040 },
  ),
  metrics,
  allowedHost,
  identity: {
    ...identity,
    shownDefault: 'the node of the token, else POD_NAME, else the host name, the process id and a random part',
  },
  ttl,
  metadata,
  json: jsonLog,
}

/** `tenure sidecar`: campaigns on behalf of another program, which asks over HTTP whether it leads. */
export const sidecarCommand: Declaration = {
  name: 'sidecar',
  argument: '<election>',
  summary: 'Campaign on behalf of another program, and tell it over HTTP whether it leads.',
  settings: sidecarSettings,
  examples: [
    'tenure sidecar nightly-report --store kubernetes://jobs',
    'curl http://127.0.0.1:4040/leader      who leads, and how long the lease lasts',
    'curl -f http://127.0.0.1:4040/is-leader  200 if this candidate leads, 503 if not',
    'tenure sidecar nightly-report --listen unix:/run/tenure/jobs.sock',
  ],
  notes: [
    'Count lease_remaining_ms from the moment of the request, and stop work at its end unless a newer answer extends it.',
    'On SIGTERM it immediately reports that it does not lead, waits until its earlier answers have expired,',
    'and releases the lease.',
    '',
  ],
  exitCodes: '0 on success, 2 for invalid usage, 69 if the address is unavailable, 128 + n for a second signal',
  run: async (flags, name) => (await import('./sidecar.ts')).sidecar(name, flags),
}
