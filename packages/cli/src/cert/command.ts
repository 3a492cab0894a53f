import type { Declaration } from '../shared/arguments/declare.ts'
import { certSettings } from './settings.ts'

/** `tenure cert`: creates a server certificate without a CA. */
export const certCommand: Declaration = {
  name: 'cert',
  summary: 'Create a self-signed certificate for "tenure serve" that clients trust by --ca-file.',
  settings: certSettings,
  examples: ['tenure cert --host one.example,10.0.0.7 --out .'],
  notes: [
    'It writes two files. Keep service.key on the machine of the service, as its --tls-key.',
    'service.pem is not secret: it is the --tls-cert of the service and the --ca-file of every client.',
    'It cannot sign other certificates, so clients that trust it trust only this service.',
    'To replace it, first put both the old and the new service.pem into the --ca-file of the clients.',
  ],
  exitCodes: '0 on success, 1 if a file already exists, 2 for invalid usage',
  run: async (flags) => (await import('./cert.ts')).cert(flags),
}
