/** The settings of `tenure run --shards`, and those that it refuses. */
import { isName, nameRule } from '@tenure/internal/names'
import { membersLimit, shardsLimit } from '@tenure/internal/shard-assignment'
import { InvalidValue } from '../shared/arguments/invalid-value.ts'
import { flagOf } from '../shared/arguments/settings.ts'

/** The shards to take part in. */
export interface ShardGroup {
  readonly group: string
  readonly shards: number
}

const range = (most: number) => `a whole number from 1 to ${most}`

/** Parses GROUP:N. */
export function shardsOf(text: string): ShardGroup {
  const place = text.lastIndexOf(':')
  const group = text.slice(0, Math.max(place, 0))
  const shards = wholeNumber(text.slice(place + 1), shardsLimit)
  if (place > 0 && isName(group) && shards !== undefined) return { group, shards }
  throw new InvalidValue(
    `must be GROUP:N, such as imports:64, where GROUP is ${nameRule}, and N is ${range(shardsLimit)}`,
  )
}

export function memberCountOf(text: string): number {
  const count = wholeNumber(text, membersLimit)
  if (count !== undefined) return count
  throw new InvalidValue(`must be ${range(membersLimit)}`)
}

function wholeNumber(text: string, most: number): number | undefined {
  const number = Number(text)
  return /^\d{1,3}$/.test(text) && number >= 1 && number <= most ? number : undefined
}

/**
 * Why a setting does not apply with --shards. `byFlag`: it has no effect alone, so a variable may be meant for another
 * command and is ignored.
 */
const refused: Readonly<Record<string, { readonly why: string; readonly byFlag?: true }>> = {
  once: { why: 'runs the command until it exits, but a shard is owned without end' },
  wait: { why: 'limits the wait for one leader, but --shards waits for shards without end', byFlag: true },
  hold: { why: 'says whether to release the lease, but a shard is kept in any case until it moves' },
  every: { why: 'decides when the command runs, but --shards runs it while a shard is owned' },
  timezone: { why: 'requires --every', byFlag: true },
  missed: { why: 'requires --every', byFlag: true },
  atMostOncePer: { why: 'decides when the command runs, but --shards runs it while a shard is owned' },
  maxRuntime: { why: 'limits a run that is expected to end, but --shards runs the command without end', byFlag: true },
  eligible: { why: 'is about one leader, but shards are spread over all machines that run' },
  eligibleFile: { why: 'is about one leader, but shards are spread over all machines that run' },
  priority: { why: 'is about one leader, but shards are spread over all machines that run' },
  present: { why: 'takes a seat among the members, which --shards does in any case' },
  generation: { why: 'is about one leader, but shards are spread over all machines that run', byFlag: true },
  progressFile: { why: 'is about one leader and one command, but --shards runs a command for each shard' },
  progressTimeout: { why: 'is about one leader and one command, but --shards runs a command for each shard' },
}

/** Returns one problem for each given setting that does not apply with --shards. */
export function refusedWithShards(
  settings: Readonly<Record<string, unknown>>,
  table: Readonly<Record<string, { readonly fallback: unknown }>>,
  flags: Readonly<Record<string, unknown>>,
): string[] {
  return Object.entries(refused)
    .filter(([name, { byFlag }]) => {
      const isSet = settings[name] !== table[name]?.fallback
      // `--no-once` is given, but asks for nothing.
      return byFlag ? flags[name] !== undefined : isSet
    })
    .map(([name, { why }]) => `${flagOf(name)} ${why}, so it cannot be combined with --shards.`)
}
