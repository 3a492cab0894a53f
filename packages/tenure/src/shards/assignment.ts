/**
 * What the processes of a group write for each other: the assignment, which the coordinator keeps in the checkpoint of
 * the group's record, and the report, which each member keeps in the checkpoint of its seat. `codec.ts` encodes both.
 */
import { TenureError } from '../common/errors.ts'

const changesPerTerm = 65_536
/** The last `n` of an epoch. A coordinator that has used it steps down, and the next term starts again at 0. */
export const lastChange = changesPerTerm - 1
const termLimit = 2 ** 37

/** What all processes of a group must agree on. A process with other settings does not join. */
export interface ShardSettings {
  readonly shards: number
  /** The name of each shard, or undefined if shards have only numbers. */
  readonly names?: readonly string[] | undefined
  /** The name of the hash that maps keys to shards. */
  readonly hash: string
  /** The lease of every seat and of the coordinator, in milliseconds. */
  readonly leaseDurationMs: number
}

/** A member: a process under one attempt on one seat. The attempt is unique forever. */
export interface MemberId {
  readonly seat: number
  readonly attempt: string
}

/** The state of one shard. It changes owner only through `free`. */
export type ShardState =
  | { readonly state: 'free' }
  /** After a recovery has begun: somebody may own it. */
  | { readonly state: 'unknown' }
  /** `token` is the epoch in which it was granted. */
  | { readonly state: 'owned'; readonly owner: MemberId; readonly token: number }
  /** `since` is the epoch of the revocation, and `lineage` the coordinator that wrote it. */
  | { readonly state: 'revoked'; readonly owner: MemberId; readonly since: number; readonly lineage: string }

/** Who owns which shard, as one coordinator wrote it. */
export interface Assignment {
  readonly settings: ShardSettings
  /** `term * 65536 + n`. It rises with every assignment. */
  readonly epoch: number
  /** The attempt of the coordinator that wrote it. */
  readonly lineage: string
  /** The members that own a shard, and the members from which a shard is being revoked. */
  readonly members: readonly MemberId[]
  readonly shards: readonly ShardState[]
}

/** What a member has seen and what it still does. */
export interface OwnershipReport {
  /** Acquire leaves a checkpoint unchanged, so without this a successor on the seat would inherit the report. */
  readonly attempt: string
  /** The lineage of the assignment that the member has seen. Empty if it has seen none. */
  readonly lineage: string
  /** The epoch of the assignment that the member has seen, 0 if none. */
  readonly seen: number
  /** The shards whose work has not settled, in rising order. */
  readonly running: readonly number[]
  readonly leaving: boolean
  readonly left: boolean
}

/** Returns the epoch of change `n` in a coordinator's term. Throws if epochs of this term would not be exact. */
export function epochOf(term: number, n: number): number {
  if (term < termLimit) return term * changesPerTerm + n
  throw new TenureError('TERM_EXHAUSTED', `The group has used its last term, ${termLimit - 1}. Use a new group name.`)
}

/** Returns the coordinator's term of an epoch. */
export function termOf(epoch: number): number {
  return Math.floor(epoch / changesPerTerm)
}

/** Returns the `n` of an epoch. */
export function changeOf(epoch: number): number {
  return epoch % changesPerTerm
}

/** Returns the name of the first setting in which two groups differ, or undefined if they agree. */
export function differingSetting(one: ShardSettings, other: ShardSettings): keyof ShardSettings | undefined {
  if (one.shards !== other.shards) return 'shards'
  if (JSON.stringify(one.names ?? []) !== JSON.stringify(other.names ?? [])) return 'names'
  if (one.hash !== other.hash) return 'hash'
  return one.leaseDurationMs === other.leaseDurationMs ? undefined : 'leaseDurationMs'
}

/** Returns the members that the shards name, in the order of their seats. */
export function namedMembers(shards: readonly ShardState[]): readonly MemberId[] {
  const named = new Map<string, MemberId>()
  for (const shard of shards) if ('owner' in shard) named.set(shard.owner.attempt, shard.owner)
  return [...named.values()].toSorted(bySeat)
}

/** The order of members in tables and in decisions. */
export function bySeat(one: MemberId, other: MemberId): number {
  return one.seat - other.seat || (one.attempt < other.attempt ? -1 : Number(one.attempt > other.attempt))
}
