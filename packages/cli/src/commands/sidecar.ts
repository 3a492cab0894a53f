import { Command } from 'commander'
import { parseAddress } from '../addresses.ts'
import { describe } from '../describe.ts'
import { addFlags, setting, toggle } from '../settings.ts'
import { campaignedStoreSettings, identity, metadata, ttl } from '../store-settings.ts'

export const sidecarSettings = {
  ...campaignedStoreSettings,
  listen: setting(
    { placeholder: 'address', help: 'where to answer; :4040 is every address', shownDefault: '127.0.0.1:4040' },
    parseAddress,
    { host: '127.0.0.1', port: 4040 },
  ),
  identity: { ...identity, shownDefault: 'POD_NAME, else the name of this host and a random part' },
  ttl,
  metadata,
  json: toggle('log as lines of JSON'),
}

/** `tenure sidecar`: campaigns for a program beside it, which asks over HTTP whether it leads. */
export function sidecarCommand(): Command {
  const command = new Command('sidecar')
    .argument('<election>')
    .description('Campaign for the program beside it, and answer over HTTP whether it leads.')
  addFlags(command, sidecarSettings)
  return describe(command, {
    examples: [
      'tenure sidecar nightly-report --store kubernetes://jobs',
      'curl http://127.0.0.1:4040/leader      who leads, and for how long unless renewed',
      'curl -f http://127.0.0.1:4040/is-leader  200 if this one leads, 503 if not',
    ],
    notes: [
      'Whoever asks counts lease_remaining_ms from the moment of asking, and stops then unless it has asked again.',
      'SIGTERM: it answers no at once, waits until what it has told has run out, and gives the lease back.',
      '',
    ],
    exitCodes: '0, 2 for a wrong command, 69 if the address cannot be had, 128 + n for a second signal',
  }).action(async (election: string, flags: Record<string, unknown>) => {
    const { sidecar } = await import('../sidecar/sidecar.ts')
    await sidecar(election, flags)
  })
}
