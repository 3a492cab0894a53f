import { Command } from 'commander'
import { CommandError, usageError } from '../errors.ts'
import { addFlags, argument, mistypedVariables, settingsFrom } from '../settings.ts'
import { nameOf } from '../values.ts'
import { checkTogether, runSettings } from './run-settings.ts'

/** `tenure run`: leadership for any program. */
export function runCommand(): Command {
  const command = new Command('run')
    .description('Run a command only while this machine leads.')
    .usage('<election> --store <url> [options] -- <command...>')
    .argument('[election]', 'who takes part names the same one')
    .argument('[command...]', 'the program and its arguments, after --')
  addFlags(command, runSettings)
  return command
    .addHelpText('after', help)
    .action((_election: string, _words: readonly string[], flags: Record<string, unknown>) => {
      const mistyped = () => mistypedVariables(runSettings, process.env, command.parent)
      return run(command.args, flags, mistyped)
    })
}

const help = `
Examples:
  tenure run queue --store file:///var/lib/leases -- node consumer.js
  tenure run migrate-v42 --store https://elections.example.com --once -- npm run migrate
  tenure run report --store https://elections.example.com --every '0 3 * * *' --timezone Europe/Zurich -- ./report.sh

The command gets TENURE_TERM, TENURE_ELECTION, TENURE_IDENTITY and TENURE_FENCE_FILE, a JSON file that is rewritten at
each renewal; with --every also TENURE_SCHEDULED_AT. It runs in a session of its own, with our standard streams. When
leadership is lost it gets SIGTERM, and SIGKILL before another machine may lead, also when the store hangs or tenure is
killed or stopped. When it exits, what it leaves behind in its session is ended, and the lease is released.

SIGTERM, SIGINT, SIGQUIT and SIGHUP are passed to the command and end tenure once it has exited; the second one kills.
Every option can be set in the environment too: --ttl is TENURE_TTL.

Not covered: tenure and its supervisor both stopped or killed at once, processes that start a session of their own or
change their user (a container or a systemd unit holds those), a machine whose clocks all stood still. Guard what the
command writes to with TENURE_TERM.

With --every a time that the fleet has begun to run is never run again, also if that run fails. Times are read from
this machine's clock: one that is far ahead runs early, and then the fleet waits until the others' clocks get there.

Exit codes: the command's own (128 + n if signal n ended it; 127 if it was not found, 126 if it cannot be executed), 0,
1 if it cannot be supervised, 2 for wrong settings, 69 if the store cannot be had, 75 if leadership was lost with --once
or --at-most-once-per.
`

async function run(
  args: readonly string[],
  flags: Readonly<Record<string, unknown>>,
  mistyped: () => readonly string[],
): Promise<void> {
  const { name, words } = divide(args, process.argv)
  const settings = settingsFrom(runSettings, flags)
  checkTogether(settings, flags)
  const election = argument('ELECTION', name, nameOf)
  const [{ prepare }, { Messages }] = await Promise.all([import('../run/prepare.ts'), import('../run/messages.ts')])
  const messages = new Messages()
  const conduct = prepare(election, words, settings)
  for (const text of mistyped()) messages.tell(text)
  try {
    process.exitCode = await conduct(messages)
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    messages.tell(error.message)
    process.exitCode = error.exitCode
  }
  await messages.flush()
}

/** The election stands before `--` and the command after it, so that neither can be taken for the other. */
function divide(args: readonly string[], typed: readonly string[]): { name: string; words: readonly string[] } {
  const place = typed.indexOf('--')
  const after = place < 0 ? [] : typed.slice(place + 1)
  const [name, ...early] = args.slice(0, args.length - after.length)
  if (name === undefined)
    throw usageError(['ELECTION is missing before --: tenure run ELECTION --store URL -- COMMAND…'])
  if (place < 0 && early.length > 0) throw usageError([`the command must stand after --, as in: -- ${early.join(' ')}`])
  if (early.length > 0)
    throw usageError([`"${early.join(' ')}" stands before --: all of the command must stand after it.`])
  if (after.length === 0) throw usageError(['COMMAND is missing after --: tenure run ELECTION --store URL -- COMMAND…'])
  return { name, words: after }
}
