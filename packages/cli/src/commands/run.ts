import { Command } from 'commander'
import { addFlags } from '../shared/arguments/settings.ts'
import { runSettings } from '../run/settings.ts'

/** `tenure run`: runs any program under an election. */
export function runCommand(): Command {
  const command = new Command('run')
    .description('Run a command only while this machine leads an election, or once for each shard that it owns.')
    .usage('(<election> | --shards <group:n>) --store <url> [options] -- <command...>')
    .argument('[election]', 'the name of the election, the same on all machines that compete')
    .argument('[command...]', 'the program and its arguments, after --')
  addFlags(command, runSettings)
  return command
    .addHelpText('after', help)
    .action(async (_election: string, _words: readonly string[], flags: Record<string, unknown>) => {
      const { run } = await import('../run/run.ts')
      await run(command.args, flags, command.parent)
    })
}

const help = `
Examples:
  tenure run queue --store postgres://app@db.example.com/app -- node consumer.js
  tenure run migrate-v42 --store etcd://10.0.0.1:2379 --once -- npm run migrate
  tenure run import --store redis://10.0.0.1:6379 --once --wait 30s -- ./import.sh
  tenure run report --store redis://10.0.0.1:6379 --every '0 3 * * *' --timezone Europe/Zurich -- ./report.sh
  tenure run --shards imports:64 --store postgres://app@db.example.com/app -- ./import.sh

The command gets TENURE_TERM, TENURE_ELECTION, TENURE_IDENTITY and TENURE_FENCE_FILE, a JSON file that is rewritten at
each renewal; with --every also TENURE_SCHEDULED_AT, and with --progress-file also TENURE_PROGRESS_FILE. It does not
get TENURE_TOKEN unless --pass-secrets is set. It runs in its own session and shares the standard streams of tenure.
When leadership is lost it gets SIGTERM, and SIGKILL before another machine may lead, even when the store hangs or
tenure is killed or stopped. When it exits, tenure ends the processes that it left in its session, and releases the
lease. If tenure itself is killed, its supervisor ends the command and releases the lease (on Linux).

tenure forwards SIGTERM, SIGINT, SIGQUIT and SIGHUP to the command and exits after it; a second signal kills the
command.
Every option can also be set in the environment: --ttl is TENURE_TTL.

Not covered: tenure and its supervisor both stopped or killed at the same time; processes that start their own session
or change their user (a container or a systemd unit contains those); a machine whose clocks were all paused. Protect
the resources that the command writes to by checking TENURE_TERM, or TENURE_TOKEN of a shard.

With --shards, all machines that name the same group share its shards, and each shard has one owner. The command runs
once for each shard that this machine owns, with TENURE_SHARD (from 0) and TENURE_TOKEN, the fencing token of the shard,
instead of TENURE_TERM. It has no standard input. When a shard moves to another machine, its command gets SIGTERM, and
SIGKILL after --drain-timeout. The shard is handed over only when no process of that command is left. On SIGTERM, tenure
hands all shards over, and exits with 0 within about --drain-timeout. A command that exits is restarted, and its shard
stays. If the command cannot be started, tenure leaves the group and exits.

With --every, a scheduled time runs at most once in the fleet, even if that run fails. Times are read from this
machine's clock. A machine whose clock is far ahead runs early, and the fleet then waits until the other clocks reach
that time.

Exit codes: that of the command (128 + n if signal n ended it; 127 if it was not found, 126 if it cannot be executed),
0 if there was nothing to do, 1 if the command cannot be supervised, 2 for invalid settings, 69 if the store cannot be
used, 75 if leadership was lost with --once or --at-most-once-per, or if another machine still led after --wait, 124 if
it ran longer than --max-runtime with one of these.
`
