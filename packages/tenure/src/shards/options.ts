import { processName } from '@tenure/internal/process-name'
import { isName } from '@tenure/internal/names'
import { membersLimit, shardsLimit } from '@tenure/internal/shard-assignment'
import { checkMembers, checkOptions, type OptionNames } from '../common/check-options.ts'
import { systemClock, type Clock } from '../common/clock.ts'
import { invalidOption, TenureError } from '../common/errors.ts'
import { checkName } from '../common/names.ts'
import {
  checkClock,
  checkLog,
  checkObject,
  checkpointLimitOf,
  checkSignal,
  checkStore,
  copyMetadata,
} from '../engine/check-values.ts'
import type { ElectorOptions } from '../engine/elector.ts'
import { checkGroup, checkMaxMembers } from '../engine/members/check-presence.ts'
import { encodeOffer } from '../engine/members/member-record.ts'
import { defaultMaxMembers } from '../engine/members/seats.ts'
import type { LeaseStore, Metadata } from '../engine/lease-store.ts'
import { checkDuration, timingsOf, type Timings } from '../engine/timings.ts'
import { epochOf, type MemberId, type ShardSettings, type ShardState } from './assignment.ts'
import type { ShardObserver } from './changes.ts'
import { encodeAssignment } from './codec.ts'
import { shardHashName } from './hash.ts'

/** What the work on one shard gets. */
export interface ShardContext {
  /** The number of the shard, from 0. */
  readonly shard: number
  /** The name of the shard. Undefined if shards have only numbers. */
  readonly name: string | undefined
  /** The shard's fencing token. It rises with every owner. Pass it to every resource that this work writes to. */
  readonly token: number
  /** Aborts when this process must stop its work on the shard. Its `aborted` checks the clock. */
  readonly signal: AbortSignal
  /** Registers more work that must settle before the shard is handed over. */
  waitUntil(work: Promise<unknown>): void
}

/** The work on one shard. It runs until it settles, and must settle soon after its signal has aborted. */
export type ShardFunction = (context: ShardContext) => unknown

/**
 * Options of {@link createShards}. `store`, `group`, and one of `shards` and `names` are required. `shards`, `names`, and
 * `leaseDurationMs` must be the same in all processes of the group.
 */
export interface ShardsOptions extends Pick<
  ElectorOptions,
  'store' | 'identity' | 'metadata' | 'leaseDurationMs' | 'driftRatio' | 'releaseOnCrash' | 'clock' | 'log'
> {
  /** The name of the group. It is the election of the coordinator, and the seats are named after it. */
  readonly group: string
  /** The number of shards, from 1 to 512. A key belongs to the shard that its hash selects. */
  readonly shards?: number | undefined
  /** The names of the shards, instead of a number. A key is then the name of a shard. */
  readonly names?: readonly string[] | undefined
  /**
   * The work on one shard. It is started for each shard that this process owns. A failure is reported, and the work is
   * started again after a delay. Default: none, for processes that only use `owns()` and `hold()`.
   */
  readonly work?: ShardFunction | undefined
  /** How many processes the group can have, from 1 to 100. The same in all of them. Default: 32. */
  readonly maxMembers?: number | undefined
  /** How many shards may be in motion at once. Default: an eighth of all shards, at least 16. */
  readonly maxMoves?: number | undefined
  /**
   * How long work may take to settle after its signal has aborted, and how long `stop()` tries to hand shards over.
   * Default: 30 s.
   */
  readonly drainTimeoutMs?: number | undefined
  /** An observer of the coordinator's election that also receives changes of shards, such as `electionMetrics()`. */
  readonly observer?: ShardObserver | undefined
  /** Aborting it stops the shards. */
  readonly signal?: AbortSignal | undefined
}

/** The names of {@link ShardsOptions}. */
export const shardsNames: OptionNames<ShardsOptions> = {
  store: true,
  group: true,
  shards: true,
  names: true,
  work: true,
  identity: true,
  metadata: true,
  leaseDurationMs: true,
  driftRatio: true,
  maxMembers: true,
  maxMoves: true,
  drainTimeoutMs: true,
  releaseOnCrash: true,
  clock: true,
  observer: true,
  log: true,
  signal: true,
}

/** The checked options of one process. */
export interface GroupMembership {
  readonly store: LeaseStore
  readonly group: string
  readonly identity: string
  readonly metadata: Metadata
  readonly settings: ShardSettings
  readonly timings: Timings
  readonly keepsTerms: boolean
  readonly checkpointLimitBytes: number
  readonly maxMembers: number
  readonly maxMoves: number
  readonly drainTimeoutMs: number
  /** How long a process that leaves tries to hand its shards over. After that it aborts the work that is left. */
  readonly handOverTimeoutMs: number
  readonly releaseOnCrash: ElectorOptions['releaseOnCrash']
  readonly clock: Clock
  readonly work: ShardFunction | undefined
}

const leastDefaultMoves = 16

/** Checks the options, and fills in the defaults. */
export function membershipOf(options: ShardsOptions): GroupMembership {
  checkOptions('createShards()', options, shardsNames)
  const { store, group, identity, metadata = {}, work, clock = systemClock, drainTimeoutMs = 30_000 } = options
  const { maxMembers = defaultMaxMembers, releaseOnCrash } = options
  checkStore(store)
  checkName('group', group)
  if (identity !== undefined) checkName('identity', identity)
  checkMaxMembers(maxMembers)
  // A coordinator reads the seats of processes with a higher `maxMembers` too.
  checkGroup(group, membersLimit)
  checkDuration('drainTimeoutMs', drainTimeoutMs, 1)
  checkClock(options.clock)
  checkLog(options.log)
  checkSignal(options.signal)
  checkShardObserver(options.observer)
  if (work !== undefined && typeof work !== 'function') {
    throw invalidOption('work', work, 'it must be a function that takes { shard, token, signal, … }')
  }
  if (!store.terms) {
    const text = 'This store keeps no record between leaders, so it cannot keep an assignment. Use another store.'
    throw new TenureError('TERMS_REQUIRED', text)
  }
  const timings = timingsOf(options)
  const settings = settingsOf(options, timings)
  checkSize(settings, checkpointLimitOf(store))
  const { maxMoves = Math.max(leastDefaultMoves, Math.ceil(settings.shards / 8)) } = options
  if (!Number.isSafeInteger(maxMoves) || maxMoves < 1) {
    throw invalidOption('maxMoves', maxMoves, 'it must be a whole number of at least 1', 1)
  }
  // The seat keeps the metadata together with the number of seats.
  copyMetadata(encodeOffer({ generation: undefined, maxMembers, metadata: copyMetadata(metadata) }))
  return {
    store,
    group,
    identity: identity ?? processName(clock.randomId()),
    metadata: copyMetadata(metadata),
    settings,
    timings,
    keepsTerms: store.keepsTerms ?? false,
    checkpointLimitBytes: checkpointLimitOf(store),
    maxMembers,
    maxMoves,
    drainTimeoutMs,
    handOverTimeoutMs: drainTimeoutMs,
    releaseOnCrash,
    clock,
    work,
  }
}

/** Even an assignment with one member must fit into a checkpoint. Otherwise no process would ever own a shard. */
function checkSize(settings: ShardSettings, limitBytes: number): void {
  const member: MemberId = { seat: 0, attempt: '00000000-0000-0000-0000-000000000000' }
  const token = epochOf(1, 0)
  const owned: ShardState = { state: 'owned', owner: member, token }
  const shards = Array.from({ length: settings.shards }, () => owned)
  const assignment = { settings, epoch: token, lineage: member.attempt, members: [member], shards }
  const bytes = Buffer.byteLength(encodeAssignment(assignment))
  if (bytes <= limitBytes) return
  const rule = `an assignment of them takes ${bytes} bytes, and this store accepts at most ${limitBytes}`
  throw invalidOption(settings.names ? 'names' : 'shards', settings.names ?? settings.shards, rule)
}

function settingsOf({ shards, names }: ShardsOptions, { leaseDurationMs }: Timings): ShardSettings {
  if (!Number.isSafeInteger(leaseDurationMs)) {
    const rule = 'it must be a whole number of milliseconds, because the group keeps it and compares it'
    throw invalidOption('leaseDurationMs', leaseDurationMs, rule)
  }
  if (names === undefined) {
    const isValid = Number.isSafeInteger(shards) && Number(shards) >= 1 && Number(shards) <= shardsLimit
    if (!isValid) throw invalidOption('shards', shards, `it must be a whole number from 1 to ${shardsLimit}`, 1)
    return { shards: Number(shards), hash: shardHashName, leaseDurationMs }
  }
  if (shards !== undefined) throw invalidOption('shards', shards, 'it must be left out if there are names')
  const isList = Array.isArray(names) && names.length >= 1 && names.length <= shardsLimit
  if (!isList || !names.every((name) => isName(name)) || new Set(names).size < names.length) {
    throw invalidOption('names', names, `it must be a list of 1 to ${shardsLimit} different names`)
  }
  return { shards: names.length, names: [...names], hash: shardHashName, leaseDurationMs }
}

const shardListeners = ['onEvent', 'onCall', 'onShard', 'onAssignment'] as const

function checkShardObserver(observer: unknown): asserts observer is ShardObserver | undefined {
  if (observer === undefined) return
  checkObject('observer', observer)
  for (const name of shardListeners) {
    const listener: unknown = Reflect.get(observer, name)
    if (listener !== undefined && typeof listener !== 'function') {
      throw invalidOption(`observer.${name}`, listener, 'it must be a function')
    }
  }
  checkMembers('observer', observer, shardListeners)
}
