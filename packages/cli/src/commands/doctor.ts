import { Command } from 'commander'
import { describe } from '../describe.ts'
import { addFlags, setting } from '../settings.ts'
import { identity, json, storeSettings, ttl } from '../store-settings.ts'
import { countOf, nameOf } from '../values.ts'

export const doctorSettings = {
  ...storeSettings,
  ttl,
  identity: { ...identity, shownDefault: 'the name of this host' },
  election: setting(
    {
      placeholder: 'name',
      help: 'the election to lead meanwhile, where rights go by names; by flag only',
      shownDefault: 'tenure-doctor, or a number after it',
      withoutVariable: true,
    },
    nameOf,
  ),
  calls: setting({ placeholder: 'number', help: 'how many calls of each kind are measured' }, countOf, 30),
  json,
}

/** `tenure doctor`: whether a store can be used, and with which timings. */
export function doctorCommand(): Command {
  const command = new Command('doctor').description('Find out whether a store is safe to use from here.')
  addFlags(command, doctorSettings)
  return describe(command, {
    examples: [
      'tenure doctor --store kubernetes://jobs',
      'tenure doctor --store https://elections.example.com --ttl 3s --identity node-17',
    ],
    notes: [
      'It leads an election of its own for some seconds, and releases it. Whoever leads already is left alone.',
      '',
    ],
    exitCodes:
      '0 if it is safe, 1 if it is not, 2 for a wrong command, 69 if the store cannot be used, 128 + n for a signal',
  }).action(async (flags: Record<string, unknown>) => {
    const { doctor } = await import('../doctor/doctor.ts')
    await doctor(flags)
  })
}
