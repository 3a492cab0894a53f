import type { Declaration } from '../shared/arguments/declare.ts'
import { campaignSettings } from './settings.ts'

/** `tenure campaign`: tries to lead, once. */
export const campaignCommand: Declaration = {
  name: 'campaign',
  argument: '<group>',
  summary: 'Try to lead a group of a service, once. Nobody renews the lease: see tenure run.',
  settings: campaignSettings,
  examples: [
    'tenure campaign deploy --url https://elections.example.com --ttl 10m && ./deploy.sh',
    'tenure campaign deploy --url http://127.0.0.1:7070 --identity node-17 --wait 1m --json',
  ],
  exitCodes: '0 if it leads, 1 if somebody else does, 2 for a wrong command, 69 if the service cannot be asked',
  run: async (flags, name) => (await import('./campaign.ts')).campaign(name, flags),
}
