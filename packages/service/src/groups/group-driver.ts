import { systemClock } from '../common/clock.ts'
import type { Clock } from 'tenure'
import { ServiceError } from '../common/errors.ts'
import type { GroupChange, ChangeListener, GroupState, MaybePromise, Policy, RenewClaim } from './port.ts'
import { Journal, type Written } from '../storage/journal.ts'
import { batchEnd, positionOf, type Position } from '../storage/position.ts'
import type { EndReason, GroupRecord, Loaded, Storage, StorageHead } from '../storage/storage.ts'
import type { EndedGroups } from './ended-groups.ts'
import { ExpiryScheduler } from './expiry-scheduler.ts'
import type { GrowthCheck } from './group-bytes.ts'
import { Group, GroupLease, longerHold, noMetadata, viewOf, type Hold } from './in-memory-group.ts'
import type { GroupTable } from './group-table.ts'
import { firstTerm } from '../storage/skipped-terms.ts'
import { wakeQueue } from './campaign-queue.ts'
import { loadGroups, type LoadedGroups, type LoadOptions } from './load-groups.ts'
import { StorageTimeout } from './storage-timeout.ts'
import { RenewalEvents } from './renewal-events.ts'
import * as rules from './rules.ts'
import { freeForNodeInMs } from './successor.ts'
import type { ServingClock } from './serving-clock.ts'
import type { GroupMetrics, GroupMetricsSnapshot } from './group-metrics.ts'

/** Whether this process may answer for the groups: it owns their storage, or is the active replica. */
export interface Authority {
  isProven(): boolean
  /** Throws unless the authority is proven. */
  assert(): void
  /** Resolves once the authority is proven again, if that takes only a short time. Otherwise rejects. */
  waitUntilProven(): Promise<void>
  /** Resolves if the authority can be proven now. */
  verify(): Promise<void>
  /** Returns whether the authority is lost permanently. From then on only the next active replica reports changes. */
  isLost(): boolean
  /** Resolves once nothing is in flight. */
  stop(): Promise<void>
}

/** The options of {@link GroupDriver.open}. */
export interface DriverOptions extends LoadOptions {
  readonly storage: Storage
  readonly authority: Authority
  readonly clock: ServingClock
  /** The policy of groups without a definition. */
  readonly policy: Policy
  /** Called synchronously once it is known that another replica has appended to the storage. */
  readonly onFenced?: (() => void) | undefined
  /** Called after each write of a group, whether it succeeded or not. */
  readonly onWrite?: ((tookMs: number, durable: boolean) => void) | undefined
  /** Measures how long the storage takes. Default: real time, whatever the groups' clock is. */
  readonly storageClock?: Clock | undefined
}

/** The complete contents of a storage at this head. */
export interface LoadedAtHead {
  readonly head: StorageHead
  readonly groups: LoadedGroups
}

/** The answer if the group does not exist. */
export interface MissingAnswer<T> {
  readonly otherwise: T
}

/** One request to a group. `Answer` is the type of an answer that needs no write. */
export interface GroupRequest<Answer, T> {
  readonly groupId: string
  /** Returns what a missing group means: a new group, an answer, or an error. */
  missing(groupId: string): Group | MissingAnswer<T>
  /**
   * Returns whether this answer stays true regardless of a write in flight that only adds to the lease. If so, the
   * answer need not wait for the write.
   */
  overtakes?(answer: Answer): boolean
  judge(group: Group, now: rules.DecisionContext): rules.Ruling<Answer>
  answered(group: Group, answer: Answer, now: rules.DecisionContext): MaybePromise<T>
  written(group: Group, step: rules.GroupStep, now: rules.DecisionContext): T
}

const nothing: MissingAnswer<GroupState> = {
  otherwise: { granted: false, lease: undefined, highestTerm: 0, freeInMs: 0, seq: 0 },
}
/** The state of a group that does not exist. */
export const noGroup = () => nothing
/** The result for callers that need no answer when the group does not exist. */
export const noAnswer = () => ({ otherwise: undefined })

/**
 * Applies the changes of each group one after another, in memory, backed by a storage that holds everything that must
 * survive a crash.
 *
 * Every decision about a group goes through {@link GroupDriver.decide}. It waits until no write of the group is in
 * flight. Then, in one synchronous step, it checks whether this process may answer, lets the rules decide, and begins
 * the write. A durable write takes effect in memory in `#apply` and nowhere else.
 *
 * If a write fails, memory stays as it was, and the storage has either the previous record or the new one. Nobody was
 * notified of the new one. After a crash, each kind of new record may be found there:
 *
 * - A grant: its term was already used up, so no other grant gets it. After a restart the lease is honored for its full
 *   duration, although nobody knows that it was granted. This is safe, because the grant was attempted only while
 *   nobody else held a live lease.
 * - A longer promise or a checkpoint: the lease found is the one in memory, promised for longer.
 * - A definition: the next campaign obeys it.
 * - An end: memory still has the lease and would let its holder renew it, while a restart would let another lead. Such
 *   a group is doubtful until something else is written. Before that, nothing is confirmed to its holder.
 */
export class GroupDriver {
  readonly table: GroupTable
  readonly #metrics: GroupMetrics
  readonly listeners = new Set<ChangeListener>()
  readonly #options: DriverOptions
  readonly #clock: ServingClock
  readonly #authority: Authority
  readonly #journal: Journal
  readonly #restores: number
  readonly #expiryScheduler: ExpiryScheduler
  /** Groups whose newest lease is live in memory, although the storage may have recorded its end. */
  readonly #doubtful = new Set<Group>()
  /** Makes the versions of this run different from those of every other run. */
  readonly #versionPrefix: string
  readonly #room: GrowthCheck
  readonly #storageTimeout: StorageTimeout
  readonly #renewalNews: RenewalEvents
  readonly #ended: EndedGroups
  readonly #loaded: LoadedGroups
  /** The hold on the whole storage after data loss. Its end is relative to 0 until {@link serve}. */
  #hold: Hold | undefined
  #position: Position
  #durable: Position
  #phase: 'starting' | 'serving' | 'stopping' = 'starting'
  #stopped: Promise<void> | undefined

  private constructor(head: StorageHead, groups: LoadedGroups, options: DriverOptions) {
    const { clock, storage } = options
    this.#options = options
    this.#clock = clock
    this.#authority = options.authority
    this.#journal = new Journal(storage, head, {
      newId: () => clock.randomId(),
      recordNow: (id) => this.#recordNow(id),
      onFenced: options.onFenced,
    })
    this.#restores = head.restores
    this.#position = positionOf(head)
    this.#durable = this.#position
    this.#loaded = groups
    this.#expiryScheduler = new ExpiryScheduler(clock, groups.expiries, async ({ group }) =>
      this.look(group.id, noAnswer, () => undefined),
    )
    this.#versionPrefix = clock.randomId()
    this.#storageTimeout = new StorageTimeout(options.storageClock ?? systemClock)
    this.#renewalNews = new RenewalEvents(clock, (lease) => this.#tellRenewal(lease))
    this.#metrics = groups.metrics
    this.table = groups.table
    this.#ended = groups.ended
    const { bytes } = groups.table
    this.#room = (group, record) => bytes.refusalOf(group, record)
    if (head.heldMs === undefined) return
    const longestMs = Math.max(options.policy.maxTtlMs, head.heldMs, groups.longestMs)
    this.#hold = { untilMs: longestMs, heldMs: longestMs }
  }

  /**
   * Loads all groups, unless the caller has already loaded them. In that case they must be everything that the storage
   * had at this head. Call it only once no other process can append to the storage. No request is answered before
   * {@link serve}.
   */
  static async open(options: DriverOptions, loaded: Loaded | LoadedAtHead): Promise<GroupDriver> {
    const groups = 'groups' in loaded ? loaded.groups : await loadGroups(loaded, options)
    return new GroupDriver(loaded.head, groups, options)
  }

  /**
   * The position of the newest change that followers received. Before the first change, the newest durable position
   * when the groups were loaded.
   */
  get position(): Position {
    return this.#position
  }

  /**
   * The position of the newest write, whether it changed the leader or not. Followers have received every change up to
   * it.
   */
  get durable(): Position {
    return this.#durable
  }

  /** Begins to answer. Every loaded lease counts from this one moment. */
  serve(): void {
    if (this.#phase !== 'starting') return
    const nowMs = this.#clock.monotonicMs()
    this.#loaded.start(nowMs, this.#clock)
    if (this.#hold) {
      this.#hold = { ...this.#hold, untilMs: this.#hold.untilMs + nowMs }
      this.table.hold = this.#hold
      for (const group of this.table.values()) group.hold = longerHold(group.hold, this.#hold)
    }
    this.#expiryScheduler.start()
    this.#phase = 'serving'
  }

  /** Rejects if writes cannot be made durable, or if this process may not answer. */
  async check(): Promise<void> {
    this.#requireServing()
    const check = async () => {
      await this.#authority.verify()
      // The groups may have been stopped during the await.
      this.#requireServing()
      await this.#journal.check()
      this.assert()
    }
    await this.#storageTimeout.for(check())
  }

  /**
   * Waits for calls in flight, and closes the storage. Campaigns in the queue end. If a reason is given, all waiting
   * callers fail with it at once, and nothing more is sent to the storage.
   */
  async stop(reason?: ServiceError): Promise<void> {
    if (reason) {
      this.#journal.end(reason)
      this.#storageTimeout.end(reason)
    }
    this.#stopped ??= this.#stop()
    await this.#stopped
  }

  async #stop(): Promise<void> {
    this.#phase = 'stopping'
    this.#expiryScheduler.stop()
    this.#renewalNews.stop()
    this.#clock.stop()
    for (const { campaignQueue } of this.table.values()) for (const waiter of campaignQueue ?? []) waiter.wake()
    const close = async () => {
      // In this order, because a call that waited for a proof may still reach the journal.
      await this.#authority.stop()
      await this.#journal.idle()
      await this.#options.storage.close()
    }
    await new StorageTimeout(this.#options.storageClock ?? systemClock).for(close())
  }

  #requireServing(): void {
    if (this.#phase === 'serving') return
    throw new ServiceError('BACKEND_UNAVAILABLE', `The service is ${this.#phase}.`)
  }

  #requireActive(): void {
    this.#requireServing()
    if (this.#journal.fenced) throw this.#journal.fenced
  }

  /** Throws unless this process may answer now. For requests that do not concern a single group. */
  assert(): void {
    this.#requireActive()
    this.#authority.assert()
  }

  /** Returns the metrics of the named groups, or undefined while this process may not answer. */
  groupMetrics(standbysOf: (group: Group) => number): GroupMetricsSnapshot | undefined {
    const mayAnswer = this.#phase === 'serving' && !this.#journal.fenced && this.#authority.isProven()
    return mayAnswer ? this.#metrics.snapshot(standbysOf) : undefined
  }

  /** Returns whether this process will never answer again. */
  isLost(): boolean {
    return this.#authority.isLost()
  }

  /**
   * The only way to decide anything about a group: see the top of this class. Answers synchronously if there is nothing
   * to wait for.
   */
  decide<Answer, T>(ask: GroupRequest<Answer, T>): MaybePromise<T> {
    this.#requireActive()
    if (!this.#authority.isProven()) return this.#after(this.#authority.waitUntilProven(), ask)
    const group = this.table.get(ask.groupId) ?? ask.missing(ask.groupId)
    if (!(group instanceof Group)) return group.otherwise
    const { pendingWrite } = group
    if (pendingWrite && !(ask.overtakes && pendingWrite.adds)) return this.#after(pendingWrite.done, ask)
    const now = this.#now(group)
    const ruling = ask.judge(group, now)
    const isFinal = 'answer' in ruling && (!pendingWrite || ask.overtakes?.(ruling.answer))
    if (pendingWrite && !isFinal) return this.#after(pendingWrite.done, ask)
    if ('answer' in ruling) return ask.answered(group, ruling.answer, now)
    return this.#write(group, ruling.write, () => ask.written(group, ruling.write.step, now))
  }

  async #after<Answer, T>(wait: Promise<void>, ask: GroupRequest<Answer, T>): Promise<T> {
    await this.#storageTimeout.for(wait)
    return this.decide(ask)
  }

  #write<T>(group: Group, { record, step }: rules.GroupWrite, answer: () => T): Promise<T> {
    const { onWrite } = this.#options
    this.#letGo()
    const startedMs = this.#clock.monotonicMs()
    // The term is used up from here on, whatever the outcome of the write.
    if (step.type === 'grant') group.term = step.grant.term
    this.table.bytes.begin(group, record)
    const writing = this.#journal.write(group.id, this.#kept(record)).then(
      (written) => {
        const tookMs = this.#clock.monotonicMs() - startedMs
        group.pendingWrite = undefined
        group.seq = written.head.seq
        this.#doubtful.delete(group)
        this.table.bytes.set(group, record)
        const positions = positionsOf(written)
        this.#apply(group, step, positions)
        // If this term is lost, followers get no more changes, so they must not count this position as received.
        if (!this.#authority.isLost()) this.#durable = positions[1]
        onWrite?.(tookMs, true)
        this.#authority.assert()
        return answer()
      },
      (error: unknown) => {
        group.pendingWrite = undefined
        if (record.ended) this.#doubtful.add(group)
        onWrite?.(this.#clock.monotonicMs() - startedMs, false)
        throw error
      },
    )
    const settled = () => {}
    group.pendingWrite = { done: writing.then(settled, settled), adds: step.type === 'add' }
    return this.#storageTimeout.for(writing)
  }

  /** Drops a storage-wide hold that has ended, so that the next start does not impose it again. */
  #letGo(): void {
    if (!this.#hold || this.#hold.untilMs > this.#clock.monotonicMs()) return
    this.#hold = undefined
    this.table.hold = undefined
    this.#journal.change({ heldMs: undefined })
  }

  #kept(record: GroupRecord): GroupRecord {
    return this.#restores > 0 ? { ...record, restores: this.#restores } : record
  }

  #recordNow(id: string): GroupRecord {
    const group = this.table.get(id)
    // The first write of a new group failed, so the group no longer exists here.
    if (!group) return this.#kept({ term: firstTerm(this.#restores), deleted: true })
    return this.#kept(rules.recordOf(group, this.#now(group)))
  }

  /** Applies a durable write to memory. It emits at most two changes to followers. */
  #apply(group: Group, step: rules.GroupStep, [first, last]: readonly [Position, Position]): void {
    const { lease } = group
    switch (step.type) {
      case 'grant': {
        if (lease && !lease.ended) this.#end(lease, 'expired', first)
        // Count from now, not from when the campaign arrived, because it may have waited in the queue. The candidate
        // itself counts from when it sent the campaign.
        const untilMs = this.#clock.monotonicMs() + step.grant.ttlMs
        group.lease = new GroupLease(group, step.grant, untilMs, this.#clock)
        this.#ended.delete(group)
        group.hold = undefined
        this.table.setDeleted(group, false)
        this.table.keep(group)
        this.#expiryScheduler.watch(group.lease)
        return this.#tell('LEADER_CHANGED', group.lease, last)
      }
      case 'end':
        if (!lease) return
        // Set the hold before waking the queue.
        group.hold = step.hold ?? group.hold
        // Set it before watchers are notified of the end.
        lease.handOver(step.successor, this.#clock.monotonicMs())
        this.#end(lease, step.reason, last)
        if (step.reason === 'resigned') lease.writeId = step.writeId
        return
      case 'delete':
        group.definition = undefined
        group.checkpoint = ''
        group.hold = step.hold ?? group.hold
        this.table.setDeleted(group, true)
        // Nobody waits for the successor of a deleted group.
        lease?.handOver(undefined, 0)
        if (lease?.ended) this.#ended.add(group, this.#clock.monotonicMs())
        else if (lease) this.#end(lease, 'deleted', last)
        return
      case 'define':
        group.definition = step.definition
        this.table.setDeleted(group, false)
        return this.table.keep(group)
      case 'add':
        group.checkpoint = step.checkpoint
        if (lease) lease.promisedMs = step.promisedMs
        return
      case 'trim':
        if (!lease) return
        if (step.dropped === 'metadata') lease.metadata = noMetadata
        else {
          group.lease = undefined
          this.table.setDeleted(group, true)
        }
        return
      case 'confirm':
    }
  }

  #end(lease: GroupLease, reason: EndReason, position: Position): void {
    lease.end = reason
    lease.hasLeft = reason === 'resigned'
    if (reason !== 'expired') this.#expiryScheduler.endedEarly()
    this.#ended.add(lease.group, this.#clock.monotonicMs())
    this.#tell('LEADER_LOST', lease, position, reason)
    wakeQueue(lease.group)
  }

  /** Applies a renewal that needs no write, or whose write is done. Returns how long the lease lasts from now. */
  extend(group: Group, { extendByMs, writeId, subject }: Extension, now: rules.DecisionContext): number {
    const { lease } = group
    if (!lease) return 0
    // Never shorten an earlier promise.
    lease.extend(Math.max(lease.expiresAtMs, now.monotonicMs + extendByMs), extendByMs)
    lease.writeId = writeId
    lease.renewedAtMs = now.wallMs
    lease.renewals += 1
    lease.subject = subject
    if (this.#wantsRenewals()) this.#renewalNews.note(lease)
    return lease.expiresAtMs - now.monotonicMs
  }

  #wantsRenewals(): boolean {
    for (const follower of this.listeners) if (follower.wantsRenewals?.()) return true
    return false
  }

  #tellRenewal(lease: GroupLease): void {
    const change = { ...this.#change('RENEWED', lease), subject: lease.subject }
    for (const follower of this.listeners) if (follower.wantsRenewals?.()) follower.onRenewal?.(change)
  }

  /** Drops the data of groups that ended long ago. Failures are retried later. */
  async trim(): Promise<void> {
    const due = this.#ended.takeDue(this.#clock.monotonicMs())
    const later = (group: Group) => this.#ended.add(group, this.#clock.monotonicMs())
    const trims = due.map(async ([group, what]) => {
      try {
        await this.decide<'kept' | 'later', void>({
          groupId: group.id,
          missing: noAnswer,
          judge: (found, now) => (found === group ? rules.judgeTrim(found, what, now) : { answer: 'kept' }),
          answered: (_group, answer) => (answer === 'later' ? later(group) : undefined),
          written: () => {},
        })
      } catch {
        // The storage cannot be written to now, or belongs to another replica. No caller is waiting for this.
        later(group)
      }
    })
    await Promise.all(trims)
  }

  /**
   * Returns the state of a group that would survive a crash: an expired term counts as ended only once its end is
   * durable.
   */
  look<T>(groupId: string, missing: GroupRequest<'known', T>['missing'], show: (group: Group) => T): MaybePromise<T> {
    return this.decide<'known', T>({ groupId, missing, judge: rules.judgeExpiry, answered: show, written: show })
  }

  /** Returns the current leader, or the last one if there is none. `nodeId` is the node whose campaign was lost. */
  read(groupId: string, nodeId?: string): MaybePromise<GroupState> {
    return this.look(groupId, noGroup, (group) => this.stateOf(group, false, nodeId))
  }

  /** Returns the answer to a claim in the current state. `nodeId` is the node whose campaign was lost. */
  stateOf(group: Group, granted: boolean, nodeId?: string): GroupState {
    const { lease } = group
    const nowMs = this.#clock.monotonicMs()
    return {
      granted,
      // A deleted group does not show who led it, but its term is kept.
      lease: lease && !group.deleted ? viewOf(lease, nowMs, this.#versionPrefix) : undefined,
      highestTerm: group.term,
      freeInMs: nodeId === undefined ? group.freeInMs(nowMs) : freeForNodeInMs(group, nodeId, nowMs),
      seq: group.seq,
    }
  }

  #now(group: Group): rules.DecisionContext {
    return {
      monotonicMs: this.#clock.monotonicMs(),
      wallMs: this.#clock.wallMs(),
      policy: this.#options.policy,
      versionPrefix: this.#versionPrefix,
      doubtful: this.#doubtful.has(group),
      noRoom: this.table.noRoom,
      room: this.#room,
    }
  }

  #tell(type: GroupChange['type'], lease: GroupLease, position: Position, reason?: EndReason): void {
    // The change is durable, so it is valid, but it may not be the newest. The next active replica reports it to
    // watchers.
    if (this.#authority.isLost()) return
    this.#metrics.changed(lease.group)
    const change = { ...this.#change(type, lease, reason), position }
    this.#position = position
    for (const follower of this.listeners) follower.onChange(change)
  }

  #change(type: GroupChange['type'], lease: GroupLease, reason?: EndReason): GroupChange {
    return {
      type,
      groupId: lease.group.id,
      lease: viewOf(lease, this.#clock.monotonicMs(), this.#versionPrefix),
      atMs: this.#clock.wallMs(),
      ...(reason && { reason }),
    }
  }
}

type Extension = Pick<RenewClaim, 'extendByMs' | 'writeId' | 'subject'>

/** Returns the positions of the changes of one write, at most two. */
function positionsOf({ head: { restores, term, seq }, index, isLast }: Written): readonly [Position, Position] {
  const at = (index: number) => ({ restores, term, seq, index })
  return [at(2 * index), at(isLast ? batchEnd : 2 * index + 1)]
}
