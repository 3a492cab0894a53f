/** Shards: many things, each owned by exactly one process of a fleet. */
export type {
  AssignmentReport,
  ShardChange,
  ShardEvent,
  ShardMember,
  ShardObserver,
  ShardOrigin,
  UnownedState,
  WholeShardObserver,
} from './changes.ts'
export type { HoldContext } from './key-holds.ts'
export { NotOwnerError } from './not-owner-error.ts'
export type { ShardContext, ShardFunction, ShardsOptions } from './options.ts'
export type { ShardOwner } from './routing.ts'
export { createShards, type OwnedShard, type Shards } from './shards.ts'
export type { MovingShard, ShardsStatus } from './status.ts'
