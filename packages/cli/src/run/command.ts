import { Command } from 'commander'
import { addFlags } from '../shared/arguments/settings.ts'
import { runSettings } from './settings.ts'

/** `tenure run`: leadership for any program. */
export function runCommand(): Command {
  const command = new Command('run')
    .description('Run a command only while this machine leads.')
    .usage('<election> --store <url> [options] -- <command...>')
    .argument('[election]', 'the same for all machines of which one is to lead')
    .argument('[command...]', 'the program and its arguments, after --')
  addFlags(command, runSettings)
  return command
    .addHelpText('after', help)
    .action(async (_election: string, _words: readonly string[], flags: Record<string, unknown>) => {
      const { run } = await import('./run.ts')
      await run(command.args, flags, command.parent)
    })
}

const help = `
Examples:
  tenure run queue --store postgres://app@db.example.com/app -- node consumer.js
  tenure run migrate-v42 --store etcd://10.0.0.1:2379 --once -- npm run migrate
  tenure run report --store redis://10.0.0.1:6379 --every '0 3 * * *' --timezone Europe/Zurich -- ./report.sh

The command gets TENURE_TERM, TENURE_ELECTION, TENURE_IDENTITY and TENURE_FENCE_FILE, a JSON file that is rewritten at
each renewal; with --every also TENURE_SCHEDULED_AT. TENURE_TOKEN is kept from it unless --pass-secrets is given. It runs
in a session of its own, with our standard streams. When leadership is lost it gets SIGTERM, and SIGKILL before another
machine may lead, even when the store hangs or tenure is killed or stopped. When it exits, what it leaves behind in its
session is ended, and the lease is released.

SIGTERM, SIGINT, SIGQUIT and SIGHUP are passed to the command and end tenure once it has exited; the second one kills.
Every option can be set in the environment too: --ttl is TENURE_TTL.

Not covered: tenure and its supervisor both stopped or killed at once, processes that start a session of their own or
change their user (a container or a systemd unit holds those), a machine whose clocks all stood still. Guard what the
command writes to with TENURE_TERM.

With --every a time that the fleet has begun to run is never run again, even if that run fails. Times are read from
this machine's clock: one that is far ahead runs early, and then the fleet waits until the others' clocks get there.

Exit codes: the command's own (128 + n if signal n ended it; 127 if it was not found, 126 if it cannot be executed), 0,
1 if it cannot be supervised, 2 for wrong settings, 69 if the store cannot be used, 75 if leadership was lost with --once
or --at-most-once-per, 124 if it ran longer than --max-runtime with one of these.
`
