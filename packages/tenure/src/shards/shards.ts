import { fullName, TenureError } from '../common/errors.ts'
import { checkOptions } from '../common/check-options.ts'
import { checkSignal } from '../engine/check-values.ts'
import type { Elector } from '../engine/elector.ts'
import type { Leadership } from '../engine/leadership.ts'
import type { LeaseRecord } from '../engine/lease-store.ts'
import { differingSetting } from './assignment.ts'
import type { ShardChange } from './changes.ts'
import { decodeAssignment } from './codec.ts'
import { CoordinatorDriver, differentSetting } from './coordinator-driver.ts'
import { GroupReader } from './group-reader.ts'
import { holdShard, type HoldContext } from './key-holds.ts'
import { MemberDriver } from './member-driver.ts'
import { membershipOf, type GroupMembership, type ShardsOptions } from './options.ts'
import { RoutingTable, type ShardOwner } from './routing.ts'
import { ShardReporter } from './shard-reporter.ts'
import { explainStatus, movingShards, type ShardsStatus } from './status.ts'

/** A shard that this process owns. */
export interface OwnedShard {
  readonly shard: number
  /** The name of the shard. Undefined if shards have only numbers. */
  readonly name: string | undefined
  /** The shard's fencing token. */
  readonly token: number
}

/** The shards of a group, as one of its processes sees them. */
export interface Shards {
  readonly group: string
  readonly identity: string
  /**
   * Joins the group. Resolves when this process has seen the first assignment. Rejects with `INVALID_OPTION` if the group
   * has other settings, and with `STOPPED` if it is stopped before.
   */
  start(): Promise<void>
  /**
   * The shard of a key, if this process owns it now according to the clock. Otherwise undefined. With `names`, a key is
   * the name of a shard.
   */
  owns(key: string): OwnedShard | undefined
  /** The owner of a key's shard as last seen. Undefined while nobody owns it, or if its owner is not known yet. */
  ownerOf(key: string): ShardOwner | undefined
  /**
   * Runs a function for a key while this process owns its shard, and returns its result. The shard is handed over only
   * after the function has settled. When the shard moves away, its signal aborts. Rejects with `NOT_OWNER` and the owner
   * if the shard belongs elsewhere, or if the function ended because the shard moved away.
   */
  hold<T>(key: string, action: (context: HoldContext) => T | Promise<T>): Promise<T>
  /** All changes from now on. A reader that falls behind misses changes and gets a `gap` instead. */
  changes(options?: { signal?: AbortSignal | undefined }): AsyncIterableIterator<ShardChange, undefined>
  /** The members, their loads, the shards in motion, and what the group is waiting for. */
  status(): ShardsStatus
  /** Hands the shards over, then leaves. May be called repeatedly. Settles in bounded time. */
  stop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * Creates the shards of a group: many things, each owned by exactly one process, and spread fairly over all processes
 * that start them. Call it in every process.
 *
 * @example
 * const shards = createShards({
 *   store, group: 'sessions', shards: 256, signal,
 *   metadata: { address: 'http://10.0.0.7:8080' },
 *   work: ({ shard, token, signal }) => serveShard(shard, { fence: token, signal }),
 * })
 * await shards.start()
 * const owned = shards.owns('chat-42')
 */
export function createShards(options: ShardsOptions): Shards {
  return new ShardGroup(membershipOf(options), options)
}

/** Follows the lease on which all shards of a process depend. */
export interface SeatListener {
  /** This process has taken a seat. No work has started under its lease yet. */
  onSeat(leadership: Leadership): void
  /** The lease of the seat was renewed. */
  onRenewed(): void
}

/** The shards of a process whose work is done by other processes, which a supervisor must end before the lease expires. */
export interface SupervisedShards extends Shards {
  /** The candidate for the coordinator of the group. */
  readonly elector: Elector
  /** After `stop()`: aborts the work that is left at once, instead of waiting until its shards are handed over. */
  close(): void
}

/**
 * Creates the shards of a process, and reports the lease of its seat. For `tenure run`. `handOverTimeoutMs`: how long
 * `stop()` waits for others to take the shards over, before it aborts the work that is left.
 */
export function createSupervisedShards(
  options: ShardsOptions,
  { handOverTimeoutMs, ...seat }: SeatListener & { readonly handOverTimeoutMs: number },
): SupervisedShards {
  return new ShardGroup({ ...membershipOf(options), handOverTimeoutMs }, options, seat)
}

class ShardGroup implements SupervisedShards {
  readonly group: string
  readonly identity: string
  readonly #membership: GroupMembership
  readonly #reporter: ShardReporter
  readonly #reader: GroupReader
  readonly #member: MemberDriver
  readonly #coordinator: CoordinatorDriver
  readonly #routing: RoutingTable
  readonly #started: Deferred = deferred()
  readonly #forgetSignal: () => void
  #phase: 'idle' | 'running' | 'leaving' | 'stopped' = 'idle'
  #stopping: Promise<void> | undefined

  constructor(membership: GroupMembership, { observer, log, signal }: ShardsOptions, seat?: SeatListener) {
    const { group, identity, clock } = membership
    this.#membership = membership
    this.group = group
    this.identity = identity
    const { namespace } = membership.store
    const origin = { group, ...(namespace !== undefined && { namespace }), identity }
    this.#reporter = new ShardReporter(origin, clock, observer, log)
    this.#reader = new GroupReader(membership, this.#reporter, {
      attempt: () => this.#member.attempt,
      onRead: (record, attempt) => this.#read(record, attempt),
    })
    this.#member = new MemberDriver(membership, this.#reporter, {
      onSeat: (leadership) => {
        seat?.onSeat(leadership)
        this.#reader.wake()
      },
      onSeatRenewed: () => seat?.onRenewed(),
      onAssignment: () => this.#started.resolve(),
      hasOthers: () => this.#hasOthers(),
    })
    const host = {
      onGroupChanged: () => this.#reader.wake(),
      seatsInUse: () => Math.max(0, ...(this.#routing.assignment?.members ?? []).map(({ seat }) => seat + 1)),
      onFatal: (error: unknown) => this.#fail(error),
    }
    this.#coordinator = new CoordinatorDriver(membership, this.#reporter, host, log)
    this.#routing = new RoutingTable(
      membership,
      () => this.#member.attempt,
      (members) => this.#reporter.tell({ type: 'members', members }),
    )
    const onAbort = () => void this.stop()
    signal?.addEventListener('abort', onAbort, { once: true })
    this.#forgetSignal = () => signal?.removeEventListener('abort', onAbort)
    if (signal?.aborted) onAbort()
  }

  async start(): Promise<void> {
    if (this.#phase !== 'idle') {
      const text = `The shards of "${this.group}" were already started or stopped. Create new ones to join again.`
      throw new TenureError('ALREADY_STARTED', text)
    }
    this.#phase = 'running'
    this.#reporter.open()
    void this.#join()
    await this.#started.promise
  }

  get elector(): Elector {
    return this.#coordinator.elector
  }

  close(): void {
    this.#member.close()
  }

  owns(key: string): OwnedShard | undefined {
    const shard = this.#routing.shardOf(key)
    const token = this.#member.tokenOf(shard)
    return token === undefined ? undefined : { shard, name: this.#nameOf(shard), token }
  }

  ownerOf(key: string): ShardOwner | undefined {
    return this.#routing.ownerOf(this.#routing.shardOf(key))
  }

  async hold<T>(key: string, action: (context: HoldContext) => T | Promise<T>): Promise<T> {
    const shard = this.#routing.shardOf(key)
    const { group } = this
    return holdShard(this.#member, shard, action, { group, ownerOf: () => this.#routing.ownerOf(shard) })
  }

  changes(options: { signal?: AbortSignal | undefined } = {}): AsyncIterableIterator<ShardChange, undefined> {
    checkOptions('changes()', options, { signal: true })
    checkSignal(options.signal)
    return this.#reporter.changes(options.signal, this.#phase === 'stopped')
  }

  status(): ShardsStatus {
    const { group, identity } = this
    const { member } = this.#member.state
    const assignment = this.#routing.assignment
    const members = this.#routing.members()
    const record = this.#coordinator.elector.leader()
    const phase = this.#phase === 'running' ? (member ? 'joined' : 'joining') : this.#phase
    const state = {
      phase,
      epoch: assignment?.epoch,
      moving: assignment ? movingShards(assignment, members) : [],
      coordinator: record && !record.released ? record.holder : undefined,
    } as const
    return {
      group,
      identity,
      ...state,
      seat: member?.seat,
      owned: Array.from({ length: this.#membership.settings.shards }, (_, shard) => shard).flatMap((shard) => {
        const token = this.#member.tokenOf(shard)
        return token === undefined ? [] : [{ shard, name: this.#nameOf(shard), token }]
      }),
      members,
      isCoordinator: this.#coordinator.state !== undefined,
      why: explainStatus(state),
    }
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async #join(): Promise<void> {
    try {
      // A process with other settings does not join.
      this.#checkSettings(await this.#reader.first())
    } catch (error) {
      if (this.#phase === 'running') this.#fail(error)
      return
    }
    if (this.#phase !== 'running') return
    this.#coordinator.start()
    this.#member.start()
    void this.#reader.run()
  }

  #read(record: LeaseRecord | undefined, attempt: string): void {
    try {
      this.#checkSettings(record)
    } catch (error) {
      return this.#fail(error)
    }
    const assignment = record && decodeAssignment(record.checkpoint)
    if (assignment) void this.#routing.see(assignment)
    this.#member.read(assignment, attempt)
  }

  #checkSettings(record: LeaseRecord | undefined): void {
    const { settings } = this.#membership
    const assignment = record && decodeAssignment(record.checkpoint)
    const differing = assignment && differingSetting(assignment.settings, settings)
    if (differing)
      throw differentSetting(
        fullName({ ...this.#membership.store, election: this.group }),
        differing,
        settings[differing],
      )
  }

  #hasOthers(): boolean {
    // Only the coordinator knows the members that own nothing yet.
    return this.#coordinator.state === undefined || this.#coordinator.othersLive(this.#member.attempt)
  }

  #nameOf(shard: number): string | undefined {
    return this.#membership.settings.names?.[shard]
  }

  /** Ends everything, because this process cannot take part. */
  #fail(error: unknown): void {
    if (this.#phase !== 'running') return
    if (!this.#started.isSettled) this.#started.reject(error)
    else this.#reporter.failed(error)
    void this.stop()
  }

  async #stop(): Promise<void> {
    const wasRunning = this.#phase === 'running'
    this.#phase = 'leaving'
    this.#forgetSignal()
    const text = `The shards of "${this.group}" were stopped.`
    if (wasRunning) await this.#member.leave()
    // The coordinator goes last, so that it can hand over the shards of its own process.
    this.#reader.stop()
    this.#routing.stop()
    await this.#coordinator.stop()
    this.#phase = 'stopped'
    this.#started.reject(new TenureError('STOPPED', text))
    this.#reporter.close()
  }
}

interface Deferred {
  readonly promise: Promise<void>
  readonly isSettled: boolean
  resolve(): void
  reject(reason: unknown): void
}

function deferred(): Deferred {
  let isSettled = false
  let settle: { resolve(): void; reject(reason: unknown): void } | undefined
  const promise = new Promise<void>((resolve, reject) => (settle = { resolve, reject }))
  // Nobody may be waiting for it.
  promise.catch(() => undefined)
  return {
    promise,
    get isSettled() {
      return isSettled
    },
    resolve: () => ((isSettled = true), settle?.resolve()),
    reject: (reason) => ((isSettled = true), settle?.reject(reason)),
  }
}
