import { Command } from 'commander'
import { describe } from '../describe.ts'
import { addFlags, setting, toggle } from '../settings.ts'
import { json, storeSettings } from '../store-settings.ts'
import { countOf } from '../values.ts'

export const watchSettings = {
  ...storeSettings,
  json,
  renewals: toggle('print renewals too'),
  changes: setting({ placeholder: 'number', help: 'end after so many lines; the first is how things stand' }, countOf),
}

/** `tenure watch`: who leads, as it changes. */
export function watchCommand(): Command {
  const command = new Command('watch').argument('<election>').description('Show who leads an election, as it changes.')
  addFlags(command, watchSettings)
  return describe(command, {
    examples: [
      'tenure watch nightly-report --store kubernetes://jobs',
      'tenure watch nightly-report --store https://elections.example.com --json | jq .type',
    ],
    notes: ['On a terminal it is a live view; q ends it. Elsewhere, and with --json, each change is a line.', ''],
    exitCodes: '0 when it was ended by q or --changes, 2 for a wrong command, 69 if the store cannot be asked',
  }).action(async (election: string, flags: Record<string, unknown>) => {
    const { watch } = await import('../ask/watch.ts')
    await watch(election, flags)
  })
}
