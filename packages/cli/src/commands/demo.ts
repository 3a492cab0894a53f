import { Command } from 'commander'
import { describe } from '../describe.ts'
import { parseDuration } from '../durations.ts'
import { addFlags, setting } from '../settings.ts'

export const demoSettings = {
  endAfter: setting(
    { placeholder: 'duration', help: 'end by itself', shownDefault: 'never on a terminal, else 20s' },
    parseDuration,
  ),
  harmEvery: setting(
    { placeholder: 'duration', help: 'harm the leader so long after it was elected', shownDefault: '6s' },
    parseDuration,
    6_000,
  ),
}

/** `tenure demo`: three candidates, and what happens to them. */
export function demoCommand(): Command {
  const command = new Command('demo').description('Watch three candidates, and harm the leader.')
  addFlags(command, demoSettings)
  return describe(command, {
    examples: ['tenure demo', 'tenure demo --harm-every 2s --end-after 30s'],
    notes: [
      'They are processes of this machine, on the file store. Keys: k kills the leader, p pauses it, c cuts it off',
      'from its store, s stops it in good order, q quits.',
      '',
    ],
    exitCodes: '0, 2 for a wrong command, 128 + n for a signal',
  }).action(async (flags: Record<string, unknown>) => {
    const { demo } = await import('../demo/demo.ts')
    demo(flags)
  })
}
