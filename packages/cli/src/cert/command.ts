import type { Declaration } from '../shared/arguments/declare.ts'
import { certSettings } from './settings.ts'

/** `tenure cert`: a certificate for a service, without an authority. */
export const certCommand: Declaration = {
  name: 'cert',
  summary: 'Make a certificate for "tenure serve" that its clients trust by name of the file.',
  settings: certSettings,
  examples: ['tenure cert --host one.example,10.0.0.7 --out .'],
  notes: [
    'It writes two files. service.key stays on the machine of the service, as --tls-key.',
    'service.pem is no secret: --tls-cert of the service, and --ca-file of every client.',
    'It signs no other certificate, so clients that trust it trust this one service.',
    'To replace it, put the old and the new service.pem into one --ca-file of the clients first.',
  ],
  exitCodes: '0, 1 if a file exists already, 2 for a wrong command',
  run: async (flags) => (await import('./cert.ts')).cert(flags),
}
