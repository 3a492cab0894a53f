import type { Command } from 'commander'
import { CommandError, usageError } from '../shared/arguments/errors.ts'
import { parseArgument, mistypedVariables, settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { nameOf } from '../shared/arguments/values.ts'
import { Runner } from './runner.ts'
import { Messages } from './messages.ts'
import { planOf, shardPlanOf } from './plan.ts'
import { checkRunSettings, runSettings } from './settings.ts'
import { ShardRunner } from './shard-runner.ts'
import type { ShardGroup } from './shard-settings.ts'

/** Runs the command while this machine leads, then exits the process. */
export async function run(args: readonly string[], flags: Sources['flags'], program: Command | null): Promise<void> {
  const settings = settingsFrom(runSettings, flags)
  const { shards, json } = settings
  const { name, words } = divide(args, process.argv, shards)
  checkRunSettings(settings, flags)
  const messages = new Messages({ isJson: shards !== undefined && json })
  const runner = shards
    ? new ShardRunner(shardPlanOf(shards, words, settings), messages)
    : new Runner(planOf(parseArgument('ELECTION', name, nameOf), words, settings), messages)
  for (const text of mistypedVariables(runSettings, process.env, program)) messages.tell(text)
  try {
    process.exitCode = await runner.conduct()
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    messages.tell(error.message)
    process.exitCode = error.exitCode
  }
  await messages.flush()
  // A liveness socket that could not be removed stays open, and would otherwise keep this process alive.
  process.exit()
}

/**
 * Splits the arguments at `--`. The election comes before it and the command after it, so that neither can be mistaken
 * for the other. With --shards there is no election, and `name` is empty.
 */
function divide(
  args: readonly string[],
  typed: readonly string[],
  shards: ShardGroup | undefined,
): { name: string; words: readonly string[] } {
  const place = typed.indexOf('--')
  const after = place < 0 ? [] : typed.slice(place + 1)
  const before = args.slice(0, args.length - after.length)
  if (shards && place >= 0 && before.length > 0) {
    throw usageError([
      `"${before.join(' ')}" is before --. --shards, or TENURE_SHARDS, names a group instead of an election. Leave out one of them, and put the whole command after --.`,
    ])
  }
  const [name, ...early] = shards ? ['', ...before] : before
  const usage = `tenure run ${shards ? '--shards GROUP:N' : 'ELECTION'} --store URL -- COMMAND…`
  if (name === undefined) throw usageError([`ELECTION is missing. Put it before --: ${usage}`])
  if (place < 0 && early.length > 0) throw usageError([`The command must come after --, as in: -- ${early.join(' ')}`])
  if (early.length > 0) throw usageError([`"${early.join(' ')}" is before --. Put the whole command after it.`])
  if (after.length === 0) throw usageError([`COMMAND is missing. Put it after --: ${usage}`])
  return { name, words: after }
}
