/** Who owns which shard, as an observer outside the group sees it. It can be stale, and grants nothing. */
import { nameOwners } from '@tenure/internal/shard-assignment'
import type { LeaseRecord } from '../engine/lease-store.ts'
import type { Member } from '../engine/members/members.ts'
import { decodeAssignment } from './codec.ts'

/** One shard in a {@link ShardsOverview}. */
export interface ShardOverview {
  readonly shard: number
  /** Undefined if the shards of the group have only numbers. */
  readonly name: string | undefined
  /**
   * `owned`; `revoked`: its owner must stop before another member gets it; `free`: it waits for a member; `unknown`: the
   * assignment was lost, and the coordinator waits until nobody can own the shard.
   */
  readonly state: 'owned' | 'revoked' | 'free' | 'unknown'
  /** The identity of the owner, or of the member that it was revoked from. Undefined if that member is no longer present. */
  readonly owner: string | undefined
  /** The fencing token of its owner. Undefined unless the shard is owned. */
  readonly token: number | undefined
}

/** A member in a {@link ShardsOverview}. */
export interface ShardsMember extends Member {
  /** How many shards it owns. */
  readonly owned: number
  /** How many shards were revoked from it and are not free yet. */
  readonly revoked: number
}

/** A group of shards, as its coordinator assigned them last. */
export interface ShardsOverview {
  /** The identity of the coordinator. Undefined if there is none at the moment. */
  readonly coordinator: string | undefined
  /** It rises with every change of the assignment. */
  readonly epoch: number
  readonly leaseDurationMs: number
  readonly members: readonly ShardsMember[]
  readonly shards: readonly ShardOverview[]
}

/** Returns what the group's record and its members show, or undefined if the record has no assignment. */
export function overviewOf(record: LeaseRecord | undefined, members: readonly Member[]): ShardsOverview | undefined {
  const assignment = record && decodeAssignment(record.checkpoint)
  if (!assignment) return undefined
  return { coordinator: record.released ? undefined : record.holder, ...nameOwners(assignment, members) }
}
