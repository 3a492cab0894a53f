import type { Declaration } from '../shared/arguments/declare.ts'
import { campaignSettings } from './settings.ts'

/** `tenure campaign`: campaigns once. */
export const campaignCommand: Declaration = {
  name: 'campaign',
  argument: '<election>',
  summary: 'Campaign once in an election of a service. Nothing renews the lease: for that, use tenure run.',
  settings: campaignSettings,
  examples: [
    'tenure campaign deploy --url https://elections.example.com --ttl 10m && ./deploy.sh',
    'tenure campaign deploy --url http://127.0.0.1:7070 --identity node-17 --wait 1m --json',
  ],
  exitCodes: '0 if it leads, 1 if another node does, 2 for invalid usage, 69 if the service is unavailable',
  run: async (flags, name) => (await import('./campaign.ts')).campaign(name, flags),
}
