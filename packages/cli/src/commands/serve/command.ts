import type { Declaration } from '../../shared/arguments/declare.ts'
import { setting } from '../../shared/arguments/settings.ts'
import { textOf } from '../../shared/arguments/values.ts'
import { serveSettings } from './settings.ts'

const config = setting(
  { placeholder: 'file', help: 'a JSON file with settings; flags and environment take precedence' },
  textOf,
)

/** `tenure serve`: the election service. */
export const serveCommand: Declaration = {
  name: 'serve',
  summary: 'Run the election service over HTTP, on a data directory or as one of several replicas.',
  settings: { config, ...serveSettings },
  examples: [
    'tenure serve',
    'tenure serve --listen :7070 --data /var/lib/tenure --tls-cert service.pem --tls-key service.key \\',
    '  --token-key tenure.key.pub',
    'tenure serve --store etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/tenure --advertise https://10.0.0.7:7071 ...',
  ],
  notes: [
    'Without authentication (--token-key, --jwt-keys or --tls-client-ca), it listens on loopback only.',
    'SIGHUP reloads keys, certificates and rights. SIGTERM and SIGINT stop it gracefully.',
    'Options can also be set in the file, in camel case: --min-ttl is minTtl there.',
    '',
  ],
  exitCodes:
    '0 on success, 2 for invalid settings, 69 if the data or the address is unavailable, 137 (it kills itself) if stopping failed or took too long',
  logs: true,
  run: async (flags, _, program) => (await import('./serve.ts')).serve(flags, program),
}
