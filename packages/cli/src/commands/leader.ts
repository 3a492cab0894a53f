import { Command } from 'commander'
import { describe } from '../describe.ts'
import { addFlags } from '../settings.ts'
import { json, storeSettings } from '../store-settings.ts'

export const leaderSettings = { ...storeSettings, json }

/** `tenure leader`: who leads now. */
export function leaderCommand(): Command {
  const command = new Command('leader').argument('<election>').description('Show who leads an election.')
  addFlags(command, leaderSettings)
  return describe(command, {
    examples: [
      'tenure leader nightly-report --store file:///var/lib/leases',
      'tenure leader nightly-report --store https://elections.example.com --json',
    ],
    exitCodes: '0 if somebody leads, 1 if nobody does, 2 for a wrong command, 69 if the store cannot be asked',
  }).action(async (election: string, flags: Record<string, unknown>) => {
    const { leader } = await import('../ask/leader.ts')
    await leader(election, flags)
  })
}
