import { systemClock } from '../clock.ts'
import type { Clock } from 'tenure'
import { ServiceError } from '../errors.ts'
import type { Change } from '../watch/feed.ts'
import type { Follower, MaybePromise, Policy, RenewClaim, GroupStanding } from './groups.ts'
import { Journal, type Written } from '../storage/journal.ts'
import { batchEnd, positionOf, type Position } from '../storage/position.ts'
import type { EndReason, GroupRecord, Loaded, Storage } from '../storage/storage.ts'
import { EndedGroups, type EndedKept } from './ended-groups.ts'
import { ExpiryScheduler } from './expiry-scheduler.ts'
import { GroupBytes, type Room } from './group-bytes.ts'
import { Group, GroupLease, longerHold, noMetadata, viewOf, type Hold } from './group.ts'
import { firstTerm, GroupTable } from './group-table.ts'
import { wakeQueue } from './campaign-queue.ts'
import { loadGroups } from './load.ts'
import { StorageTimeout } from './storage-timeout.ts'
import { RenewalEvents } from './renewal-events.ts'
import * as rules from './rules.ts'
import type { ServingClock } from './serving-clock.ts'
import { GroupMetrics, type ShownFigures } from './group-metrics.ts'

/** Whether this process may answer for the groups: it owns their storage, or is the active replica. */
export interface Authority {
  isProven(): boolean
  /** Throws unless it is proven. */
  assert(): void
  /** Resolves once it is proven again, if that takes only a moment. Rejects otherwise. */
  soon(): Promise<void>
  /** Resolves if it can be proven now. */
  prove(): Promise<void>
  /** Returns whether it is lost permanently. From then on only the next active replica reports changes. */
  isLost(): boolean
  /** Resolves once nothing is in flight. */
  stop(): Promise<void>
}

/** The options of {@link GroupDriver.open}. */
export interface DriverOptions {
  readonly storage: Storage
  readonly authority: Authority
  readonly clock: ServingClock
  /** How much longer than its duration each loaded lease lasts. */
  readonly graceMs: number
  /** The policy of groups without a definition. */
  readonly policy: Policy
  readonly maxGroups: number
  /** The approximate limit in bytes of memory for all groups. Default: no limit. */
  readonly maxGroupBytes?: number | undefined
  /** The same for the groups of one subject. Default: 0, no limit. */
  readonly groupBytesPerSubject?: number | undefined
  /** How long the data of a group without a leader is kept. Default: see ended-groups.ts. */
  readonly endedKept?: EndedKept | undefined
  /** Ids of groups that have their own metrics. `*` matches any characters. Default: none. */
  readonly metricsGroups?: readonly string[] | undefined
  /** Called synchronously once it is known that another replica has appended to the storage. */
  readonly onFenced?: (() => void) | undefined
  /** Called after each write of a group, whether it succeeded or not. */
  readonly onWrite?: ((tookMs: number, durable: boolean) => void) | undefined
  /** Measures how long the storage takes. Default: real time, whatever the groups' clock is. */
  readonly storageClock?: Clock | undefined
}

/** The answer if the group does not exist. */
export interface Otherwise<T> {
  readonly otherwise: T
}

/** One request to a group. `Answer` is what the rules may answer without a write. */
export interface Ask<Answer, T> {
  readonly groupId: string
  /** Returns what a missing group means: a new group, an answer, or an error. */
  missing(groupId: string): Group | Otherwise<T>
  /**
   * Returns whether this answer is true even before a write in flight that only adds to the lease. Then the answer need
   * not wait for the write.
   */
  overtakes?(answer: Answer): boolean
  judge(group: Group, now: rules.Now): rules.Ruling<Answer>
  answered(group: Group, answer: Answer, now: rules.Now): MaybePromise<T>
  written(group: Group, step: rules.Step, now: rules.Now): T
}

const nothing: Otherwise<GroupStanding> = {
  otherwise: { granted: false, lease: undefined, highestTerm: 0, freeInMs: 0, seq: 0 },
}
/** The state of a group that does not exist. */
export const noGroup = () => nothing
/** For callers that need no answer if the group does not exist. */
export const noAnswer = () => ({ otherwise: undefined })

/**
 * Applies the changes of each group one after another, in memory, on top of a storage that has everything that must
 * survive a crash.
 *
 * Every decision about a group goes through {@link GroupDriver.take}. It waits until no write of the group is in
 * flight. Then, in one synchronous step, it checks whether this process may answer at all, lets the rules decide, and
 * begins the write. What was written becomes true in `#apply` and nowhere else.
 *
 * If a write fails, memory stays as it was, and the storage has the previous record, or perhaps the new one. Nobody was
 * notified of the new one, and after a crash each kind may be found there:
 *
 * - A grant: its term was already used up, so no other grant gets it. The lease is honored for its duration, from the
 *   restart on, although nobody knows of it. It was only tried when nobody else held a live lease.
 * - A longer promise or a checkpoint: the lease found is the one in memory, promised for longer.
 * - A definition: the next campaign obeys it.
 * - An end: memory still has the lease and would let its holder renew it, while a restart would let another lead. Such
 *   a group is doubtful until something else is written. Before that, nothing is confirmed to its holder.
 */
export class GroupDriver {
  readonly table: GroupTable
  readonly #shown: GroupMetrics
  readonly followers = new Set<Follower>()
  readonly #options: DriverOptions
  readonly #clock: ServingClock
  readonly #authority: Authority
  readonly #journal: Journal
  readonly #restores: number
  readonly #endings: ExpiryScheduler
  /** Groups whose newest lease is live here, while the storage may have recorded its end. */
  readonly #doubtful = new Set<Group>()
  /** Makes versions of one run differ from those of every other. */
  readonly #versionPrefix: string
  readonly #room: Room
  readonly #patience: StorageTimeout
  readonly #renewalNews: RenewalEvents
  readonly #ended: EndedGroups
  /** The hold of the whole storage after a data loss. Counted from 0 until {@link serve}. */
  #hold: Hold | undefined
  #position: Position
  #durable: Position
  #phase: 'starting' | 'serving' | 'stopping' = 'starting'
  #stopped: Promise<void> | undefined

  private constructor({ head }: Loaded, options: DriverOptions) {
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
    this.#endings = new ExpiryScheduler(clock, async ({ group }) => this.look(group.id, noAnswer, () => undefined))
    this.#versionPrefix = clock.randomId()
    this.#patience = new StorageTimeout(options.storageClock ?? systemClock)
    this.#renewalNews = new RenewalEvents(clock, (lease) => this.#tellRenewal(lease))
    this.#shown = new GroupMetrics(options.metricsGroups ?? [], clock)
    const bytes = new GroupBytes(options.maxGroupBytes ?? Infinity, options.groupBytesPerSubject ?? 0)
    this.table = new GroupTable(head.restores, options.maxGroups, { shown: this.#shown, bytes })
    this.#ended = new EndedGroups(options.endedKept)
    this.#room = (group, record) => bytes.refusalOf(group, record)
  }

  /** Loads all groups. By then no other process may append to the storage. Nothing is answered before {@link serve}. */
  static async open(options: DriverOptions, loaded: Loaded): Promise<GroupDriver> {
    const driver = new GroupDriver(loaded, options)
    let longestMs = Math.max(options.policy.maxTtlMs, loaded.head.heldMs ?? 0)
    const { bytes } = driver.table
    for await (const page of loadGroups(loaded, { stalls: options.clock, graceMs: options.graceMs, bytes })) {
      for (const group of page) {
        driver.table.add(group)
        if (group.lease && !group.lease.ended) driver.#endings.watch(group.lease)
        longestMs = Math.max(longestMs, group.longestMs)
      }
    }
    if (loaded.head.heldMs !== undefined) driver.#hold = { untilMs: longestMs, heldMs: longestMs }
    return driver
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
    const begin = (hold: Hold | undefined) => hold && { ...hold, untilMs: hold.untilMs + nowMs }
    this.#hold = begin(this.#hold)
    this.table.hold = this.#hold
    for (const group of this.table.values()) {
      group.hold = longerHold(begin(group.hold), this.#hold)
      group.lease?.begin(nowMs)
      if (group.lease?.ended) this.#ended.add(group, nowMs)
    }
    this.#endings.start(nowMs)
    this.#shown.start(nowMs)
    this.#phase = 'serving'
  }

  /** Rejects while nothing can be made durable, or this process may not answer. */
  async check(): Promise<void> {
    this.#requireServing()
    const check = async () => {
      await this.#authority.prove()
      // The groups may have been stopped while this waited.
      this.#requireServing()
      await this.#journal.check()
      this.assert()
    }
    await this.#patience.for(check())
  }

  /**
   * Waits for calls in flight, and closes the storage. Campaigns in the queue end. With a reason, all waiting callers
   * fail with it at once, and nothing more is sent to the storage.
   */
  async stop(reason?: ServiceError): Promise<void> {
    if (reason) {
      this.#journal.end(reason)
      this.#patience.end(reason)
    }
    this.#stopped ??= this.#stop()
    await this.#stopped
  }

  async #stop(): Promise<void> {
    this.#phase = 'stopping'
    this.#endings.stop()
    this.#renewalNews.stop()
    this.#clock.stop()
    for (const { line } of this.table.values()) for (const waiter of line ?? []) waiter.wake()
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

  /** Throws unless this process may answer now, for requests that concern no single group. */
  assert(): void {
    this.#requireActive()
    this.#authority.assert()
  }

  /** Returns the metrics of the named groups, or undefined while this process may not answer. */
  figures(standbysOf: (group: Group) => number): ShownFigures | undefined {
    const mayAnswer = this.#phase === 'serving' && !this.#journal.fenced && this.#authority.isProven()
    return mayAnswer ? this.#shown.figures(standbysOf) : undefined
  }

  /** Returns whether this process will never answer again. */
  isLost(): boolean {
    return this.#authority.isLost()
  }

  /**
   * The only way to decide anything about a group: see the top of this class. Answers synchronously if there is nothing
   * to wait for.
   */
  take<Answer, T>(ask: Ask<Answer, T>): MaybePromise<T> {
    this.#requireActive()
    if (!this.#authority.isProven()) return this.#after(this.#authority.soon(), ask)
    const group = this.table.get(ask.groupId) ?? ask.missing(ask.groupId)
    if (!(group instanceof Group)) return group.otherwise
    const { writing } = group
    if (writing && !(ask.overtakes && writing.adds)) return this.#after(writing.done, ask)
    const now = this.#now(group)
    const ruling = ask.judge(group, now)
    const isFinal = 'answer' in ruling && (!writing || ask.overtakes?.(ruling.answer))
    if (writing && !isFinal) return this.#after(writing.done, ask)
    if ('answer' in ruling) return ask.answered(group, ruling.answer, now)
    return this.#write(group, ruling.write, () => ask.written(group, ruling.write.step, now))
  }

  async #after<Answer, T>(wait: Promise<void>, ask: Ask<Answer, T>): Promise<T> {
    await this.#patience.for(wait)
    return this.take(ask)
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
        group.writing = undefined
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
        group.writing = undefined
        if (record.ended) this.#doubtful.add(group)
        onWrite?.(this.#clock.monotonicMs() - startedMs, false)
        throw error
      },
    )
    const settled = () => {}
    group.writing = { done: writing.then(settled, settled), adds: step.type === 'add' }
    return this.#patience.for(writing)
  }

  /** Drops a storage-wide hold that is over, so that the next start does not impose it again. */
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
    // A new group whose first write came to nothing.
    if (!group) return this.#kept({ term: firstTerm(this.#restores), deleted: true })
    return this.#kept(rules.recordOf(group, this.#now(group)))
  }

  /** Applies a durable write to memory. It emits at most two changes to followers. */
  #apply(group: Group, step: rules.Step, [first, last]: readonly [Position, Position]): void {
    const { lease } = group
    switch (step.type) {
      case 'grant': {
        if (lease && !lease.ended) this.#end(lease, 'expired', first)
        // Count from now, not from the campaign: the campaign may have waited in the queue. Its sender counts from when
        // it sent it.
        const untilMs = this.#clock.monotonicMs() + step.grant.ttlMs
        group.lease = new GroupLease(group, step.grant, untilMs, this.#clock)
        this.#ended.delete(group)
        group.hold = undefined
        this.table.setDeleted(group, false)
        this.table.keep(group)
        this.#endings.watch(group.lease)
        return this.#tell('LEADER_CHANGED', group.lease, last)
      }
      case 'end':
        if (!lease) return
        // Set the hold before waking the queue.
        group.hold = step.hold ?? group.hold
        this.#end(lease, step.reason, last)
        if (step.reason === 'resigned') lease.mark = step.mark
        return
      case 'delete':
        group.definition = undefined
        group.carry = ''
        group.hold = step.hold ?? group.hold
        this.table.setDeleted(group, true)
        if (lease?.ended) this.#ended.add(group, this.#clock.monotonicMs())
        else if (lease) this.#end(lease, 'deleted', last)
        return
      case 'define':
        group.definition = step.definition
        this.table.setDeleted(group, false)
        return this.table.keep(group)
      case 'add':
        group.carry = step.carry
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
    if (reason !== 'expired') this.#endings.endedEarly()
    this.#ended.add(lease.group, this.#clock.monotonicMs())
    this.#tell('LEADER_LOST', lease, position, reason)
    wakeQueue(lease.group)
  }

  /** Applies a renewal that needs no write, or whose write is done. Returns how long the lease lasts from now. */
  extend(group: Group, { extendByMs, mark, subject }: Extension, now: rules.Now): number {
    const { lease } = group
    if (!lease) return 0
    // Never shorten what was promised before.
    lease.extend(Math.max(lease.expiresAtMs, now.monotonicMs + extendByMs), extendByMs)
    lease.mark = mark
    lease.renewedAtMs = now.wallMs
    lease.renewals += 1
    lease.subject = subject
    if (this.#wantsRenewals()) this.#renewalNews.note(lease)
    return lease.expiresAtMs - now.monotonicMs
  }

  #wantsRenewals(): boolean {
    for (const follower of this.followers) if (follower.wantsRenewals?.()) return true
    return false
  }

  #tellRenewal(lease: GroupLease): void {
    const change = { ...this.#change('RENEWED', lease), subject: lease.subject }
    for (const follower of this.followers) if (follower.wantsRenewals?.()) follower.onRenewal?.(change)
  }

  /** Drops data of groups that ended long ago. Failures are retried later. */
  async trim(): Promise<void> {
    const due = this.#ended.takeDue(this.#clock.monotonicMs())
    const later = (group: Group) => this.#ended.add(group, this.#clock.monotonicMs())
    const trims = due.map(async ([group, what]) => {
      try {
        await this.take<'kept' | 'later', void>({
          groupId: group.id,
          missing: noAnswer,
          judge: (found, now) => (found === group ? rules.judgeTrim(found, what, now) : { answer: 'kept' }),
          answered: (_group, answer) => (answer === 'later' ? later(group) : undefined),
          written: () => {},
        })
      } catch {
        // The storage cannot be written now, or belongs to another replica. Nobody waits for this.
        later(group)
      }
    })
    await Promise.all(trims)
  }

  /** Shows the state of a group that would survive a crash: an expired term counts as ended once its end is durable. */
  look<T>(groupId: string, missing: Ask<'known', T>['missing'], show: (group: Group) => T): MaybePromise<T> {
    return this.take<'known', T>({ groupId, missing, judge: rules.judgeExpiry, answered: show, written: show })
  }

  /** Returns the leader, or the last one. */
  read(groupId: string): MaybePromise<GroupStanding> {
    return this.look(groupId, noGroup, (group) => this.standing(group, false))
  }

  /** Returns the answer to a claim in the current state. */
  standing(group: Group, granted: boolean): GroupStanding {
    const { lease } = group
    const nowMs = this.#clock.monotonicMs()
    return {
      granted,
      // A deleted group does not show who led it. Its term stays.
      lease: lease && !group.deleted ? viewOf(lease, nowMs, this.#versionPrefix) : undefined,
      highestTerm: group.term,
      freeInMs: group.freeInMs(nowMs),
      seq: group.seq,
    }
  }

  #now(group: Group): rules.Now {
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

  #tell(type: Change['type'], lease: GroupLease, position: Position, reason?: EndReason): void {
    // The change is durable and so true, but may not be the newest. The next active replica reports it to watchers.
    if (this.#authority.isLost()) return
    this.#shown.changed(lease.group)
    const change = { ...this.#change(type, lease, reason), position }
    this.#position = position
    for (const follower of this.followers) follower.onChange(change)
  }

  #change(type: Change['type'], lease: GroupLease, reason?: EndReason): Change {
    return {
      type,
      groupId: lease.group.id,
      lease: viewOf(lease, this.#clock.monotonicMs(), this.#versionPrefix),
      atMs: this.#clock.wallMs(),
      ...(reason && { reason }),
    }
  }
}

type Extension = Pick<RenewClaim, 'extendByMs' | 'mark' | 'subject'>

/** Returns the positions of the changes of a write, two at most. */
function positionsOf({ head: { restores, term, seq }, index, isLast }: Written): readonly [Position, Position] {
  const at = (place: number) => ({ restores, term, seq, index: place })
  return [at(2 * index), at(isLast ? batchEnd : 2 * index + 1)]
}
