/**
 * A replica of the service. It takes part in the election of the active replica, and answers for all groups while it is
 * active.
 *
 * This is why clients of two replicas never lead one group at the same time, although every replica, message, and
 * server may stop, fail, or be late at any moment. A is active in term a. B is elected after A, in term b. A client
 * counts its lease from the moment it sent its request.
 *
 *  1. Elections. The elector's belief ends before the store grants the next term, on a clock that counts stalls and
 *     sleep. So anything A answers in the same step in which `isLeader()` is true comes before B's election. Every
 *     answer (grants, renewals, refusals, reads, pages) checks `isLeader()` in that step, and again after every await.
 *     Preserves: all answers are in one order.
 *  2. Swap before load. B appends an empty batch with a head of term b, strictly above the term it found, and only then
 *     loads, into empty memory. Each append names the head that it follows. So from the swap on every append of A is
 *     fenced, however late it arrives, and every earlier append is in what B loads. Preserves: nothing durable is
 *     unknown to the active replica. If B kept a copy as a follower, it reads only the rest, again after the swap:
 *     group-copy.ts explains why that is equivalent to a load.
 *  3. The head that B swapped is the head that B loads. If B finds another one, some replica has swapped since, and B
 *     ends its term. Preserves: the same, for B itself.
 *  4. Unknown appends, including the swap, are settled by a write: `Journal` repeats or abandons that batch, and sends
 *     nothing else until that is done. A head that was only read may belong to a commit that a failover loses. Then A's
 *     late "ended" would be accepted after all, and a third replica would grant while B still confirms its holder.
 *     Preserves: 2.
 *  5. Promises. A confirms no duration longer than the longest in the term's record: a longer one is written first. B
 *     counts every live lease for that longest duration from one moment, when B begins to serve. The client sends
 *     before A checks `isLeader()`, A checks before B's election, and B's election comes before B begins to serve. So
 *     B's next grant comes after every belief in A's grants has ended, and no grace is needed. A directory needs a
 *     grace because its owner learns of its loss up to 5 s late, while here A is silent before B exists. A pause
 *     between A's check and its reply changes nothing, because the client does not count from the reply. Preserves: a
 *     granted lease lasts as long as promised.
 *  6. Ends. An active term ends at the first of: leadership lost, an append fenced, a higher term seen anywhere. From
 *     that step on nothing is answered, all waiting callers are refused with an error that allows them to ask another
 *     replica, and nothing more is sent to the storage. Only when no call is in flight does this replica campaign
 *     again, and it begins with empty memory. Preserves: 1 and 2, over many active terms of one process. A term that
 *     another replica reported is accepted in that step, but not permanently: see term-announcements.ts.
 *  7. A lost lease key elects no second replica while A lives: the lease store reports at least the head's term as the
 *     highest, a highest term without a record counts as held for a whole lease, A's renewals fail meanwhile, and the
 *     swap needs a term strictly above the head's. Preserves: 1, when the election's record was lost.
 *  8. A storage that lost confirmed writes is noticed at the swap. Nothing is granted for the longest lease plus one
 *     lease of a replica: see data-loss.ts. The second part is needed because the replicas' leases are kept in the same
 *     storage: a lease that comes back in an earlier version may look expired while A still believes in a later one.
 *  9. A clean stop takes no new calls, answers those in flight while it still leads, and releases the lease after that.
 *     Preserves: a handover costs one notification, and loses no answer.
 *
 * Not covered: a machine whose clocks have all stopped, such as a paused virtual machine. It may confirm renewals of
 * healthy clients until it sees a higher term in any call. To protect against this, check the group's term (the fencing
 * token) in the resource that the leader writes to.
 */
import {
  Elector,
  resolveTimings,
  type Clock,
  type ElectionEvent,
  type Leadership,
  type LeaseStore,
  type Observer,
} from 'tenure'
import { ServiceError } from '../common/errors.ts'
import type { LocalGroups } from '../groups/local-groups.ts'
import type { Position } from '../storage/position.ts'
import type { Storage } from '../storage/storage.ts'
import { TermAnnouncements, type KnownTerms } from './term-announcements.ts'
import { ConfirmedHead } from './data-loss.ts'
import { isSameActiveTerm, unknownReplica, type ActiveReplica, type ActiveReplicaSource } from './active-replica.ts'
import { WarmCopy } from './warm-copy.ts'
import { ActiveTerm, type ActiveTermEnd, type GroupsOptions } from './active-term.ts'

/** An event of a replica, for logs and metrics. */
export type ReplicaEvent =
  | { readonly type: 'elected'; readonly term: number }
  /** The storage lost confirmed data. Terms are skipped, and nothing is granted for a while. */
  | { readonly type: 'tail-lost'; readonly term: number; readonly heldMs: number }
  /** `fromCopy` says that this replica had kept a copy of the groups, and loaded only the rest. */
  | { readonly type: 'serving'; readonly term: number; readonly tookMs: number; readonly fromCopy: boolean }
  | { readonly type: 'ended'; readonly term: number; readonly why: ActiveTermEnd; readonly error: Error }

/** The options of {@link Replica}. */
export interface ReplicaOptions {
  readonly storage: Storage
  /** Reports at least the term of the storage's head as the highest. */
  readonly leases: LeaseStore
  readonly clock: Clock
  /** Where other replicas reach this one while it is active. */
  readonly address: string
  /** The unique name of this replica. */
  readonly replica: string
  /** The version of the program. */
  readonly version: string
  readonly groups: GroupsOptions
  /** Whether to keep a copy of all groups while another replica is active. Default: true, if the storage allows it. */
  readonly keepsCopy?: boolean | undefined
  /** The value in the storage's head when this replica started. Default: 0. */
  readonly restores?: number | undefined
  /** Default: 3 s. */
  readonly leaseMs?: number | undefined
  /** How far each clock's rate may be off. Default: as in every election. */
  readonly driftRatio?: number | undefined
  readonly observer?: Observer | undefined
  /** Called before the first request can be answered. A follower that subscribes here misses nothing. */
  readonly onOpen?: ((groups: LocalGroups, term: number) => void) | undefined
  readonly onEvent?: ((event: ReplicaEvent) => void) | undefined
}

const election = 'active'
/** How often a follower reads new batches within one lease duration. */
const pollsPerLease = 6
/** How long a load may take, as a part of a lease, before this replica leaves its takeover to another one. */
const shortLoadsPerLease = 10

export class Replica implements ActiveReplicaSource {
  readonly #options: ReplicaOptions
  readonly #elector: Elector
  readonly #retryMs: number
  readonly #leaseMs: number
  readonly #confirmed: ConfirmedHead
  readonly #waiters = new Set<() => void>()
  readonly #over = new AbortController()
  readonly #terms: TermAnnouncements
  readonly #warmCopy: WarmCopy | undefined
  #activeTerm: ActiveTerm | undefined
  #activeReplica: ActiveReplica = unknownReplica
  /** The term of the head when this replica last left a takeover to others. */
  #leftAtTerm: number | undefined
  #campaign: Promise<void> | undefined
  #stopped: Promise<void> | undefined

  constructor(options: ReplicaOptions) {
    const { leases, clock, address, replica, version, driftRatio } = options
    const timings = { leaseDurationMs: options.leaseMs ?? 3_000, driftRatio }
    this.#options = options
    this.#confirmed = new ConfirmedHead(options.restores ?? 0)
    this.#retryMs = resolveTimings(timings).retryIntervalMs
    this.#leaseMs = timings.leaseDurationMs
    const { follower: reads } = options.storage
    // No grace is needed: see rule 5.
    const loading = { ...options.groups, clock, graceMs: 0 }
    const pollMs = timings.leaseDurationMs / pollsPerLease
    if (reads && options.keepsCopy !== false) this.#warmCopy = new WarmCopy({ reads, groups: loading, clock, pollMs })
    this.#terms = new TermAnnouncements({
      clock,
      retryMs: this.#retryMs,
      signal: this.#over.signal,
      headTerm: async () => (await options.storage.head()).term,
      recordTerm: () => this.#elector.leader()?.term ?? 0,
      onHigher: (term) => this.#superseded(term),
      onForgotten: () => this.#announce(),
    })
    this.#elector = new Elector({
      ...timings,
      store: leases,
      election,
      identity: replica,
      metadata: { address, replica, version },
      clock,
      observer: {
        onEvent: (event) => this.#onElectionEvent(event),
        onCall: (report) => {
          options.observer?.onCall?.(report)
          this.#terms.look()
          this.#announce()
        },
      },
    })
  }

  start(): void {
    this.#elector.start()
    this.#warmCopy?.start()
    this.#campaign = this.#runActiveTerms()
  }

  /** Hands over if this replica is active. Settles in bounded time. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    this.#over.abort()
    await this.#activeTerm?.retire()
    await this.#elector.stop()
    await this.#campaign
    await this.#warmCopy?.stop()
  }

  /**
   * The terms in which some replica is known to be active, for the connections to other replicas. If a reported term is
   * above this replica's own, this replica has a successor.
   */
  get terms(): KnownTerms {
    return this.#terms
  }

  #superseded(term: number): void {
    if (this.#activeTerm && this.#activeTerm.term < term) this.#activeTerm.end('superseded')
    this.#announce()
  }

  /**
   * Throws while this replica would have to load all groups to take over, because it has just started, or was active and
   * lost its lease.
   */
  checkCopy(): void {
    if (this.#activeTerm?.serving || (this.#warmCopy?.hasTried ?? true)) return
    throw new ServiceError('BACKEND_UNAVAILABLE', 'This replica is still reading the groups. Wait until it is ready.')
  }

  /**
   * Records the position of a change that the active replica reported. The change was durable before it was reported,
   * so if the storage does not have it, the storage has lost data.
   */
  noteConfirmed(position: Position): void {
    this.#confirmed.noteConfirmed(position)
  }

  /** This call may be the first to notice a change, such as an expired lease, so it wakes all waiters. */
  now(): ActiveReplica {
    const activeReplica = this.#find()
    if (isSameActiveTerm(activeReplica, this.#activeReplica)) return this.#activeReplica
    this.#activeReplica = activeReplica
    for (const wake of this.#waiters) wake()
    return activeReplica
  }

  async changed(known: ActiveReplica, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && isSameActiveTerm(this.now(), known)) {
      await new Promise<void>((resolve) => {
        const wake = () => {
          this.#waiters.delete(wake)
          signal.removeEventListener('abort', wake)
          resolve()
        }
        this.#waiters.add(wake)
        signal.addEventListener('abort', wake, { once: true })
      })
    }
  }

  #find(): ActiveReplica {
    const groups = this.#activeTerm?.serving
    if (this.#activeTerm && groups) return { kind: 'local', term: this.#activeTerm.term, groups }
    const record = this.#elector.leader()
    if (!record || record.released || record.holder === this.#elector.identity) return unknownReplica
    // A higher term is known, but not the address of its replica.
    if (record.term < this.#terms.highest) return unknownReplica
    const { address } = record.metadata
    if (typeof address !== 'string') return unknownReplica
    return { kind: 'remote', term: record.term, address, replica: record.holder }
  }

  #announce(): void {
    this.now()
  }

  #onElectionEvent(event: ElectionEvent): void {
    this.#options.observer?.onEvent?.(event)
    if (event.type === 'new-leader') this.#terms.found(event.record.term)
    this.#announce()
  }

  async #runActiveTerms(): Promise<void> {
    for (;;) {
      // Rejects when the elector is stopped.
      const leadership = await this.#elector.waitForLeadership().catch(() => undefined)
      if (!leadership) return
      if (await this.#leavesToOthers(leadership)) {
        await this.#elector.stepDown()
        continue
      }
      this.#activeTerm = this.#newActiveTerm(leadership)
      const over = this.#activeTerm.run()
      try {
        leadership.waitUntil(over)
      } catch {
        // Leadership was lost in between, which ends the active term.
      }
      await over
      const why = this.#activeTerm.ended?.why
      this.#activeTerm = undefined
      // A takeover that failed here may succeed on another replica, so the others get a whole lease to try. But a
      // leader that was fenced while it still leads knows that the storage has lost data. The others may not know that,
      // so this replica tries again at once.
      if (leadership.isLeader()) await this.#elector.stepDown(why === 'fenced' ? { cooldownMs: 0 } : {})
      if (!this.#over.signal.aborted) this.#warmCopy?.start()
    }
  }

  /**
   * Returns whether this replica, which was elected, leaves the takeover to another one: it would have to load all groups
   * first, and another replica may have a complete copy. After the step-down the others have a whole lease to take over.
   *
   * There may be no such replica, so this replica does that only once for each term of the head. Only a takeover raises
   * that term. So some replica has taken over between any two times that this one did not, and replicas without a copy
   * never pass the lease around among themselves.
   */
  async #leavesToOthers(leadership: Leadership): Promise<boolean> {
    const signal = AbortSignal.any([leadership.signal, this.#over.signal])
    if (await (this.#warmCopy?.isWarmAfter(this.#leaseMs / shortLoadsPerLease, signal) ?? true)) return false
    try {
      const { term } = await this.#options.storage.head()
      const isFirst = term !== this.#leftAtTerm
      this.#leftAtTerm = term
      return isFirst
    } catch {
      // The takeover tries again, and reports the failure.
      return false
    }
  }

  #newActiveTerm(leadership: Leadership): ActiveTerm {
    const { storage, clock, groups, onOpen, onEvent } = this.#options
    const { term } = leadership
    const startedMs = clock.monotonicMs()
    const activeTerm: ActiveTerm = new ActiveTerm(leadership, {
      storage,
      warmCopy: this.#warmCopy,
      clock,
      groups,
      confirmed: this.#confirmed,
      retryMs: this.#retryMs,
      leaseMs: this.#leaseMs,
      onSwap: ({ heldMs }) => {
        if (heldMs !== undefined) onEvent?.({ type: 'tail-lost', term, heldMs })
      },
      onOpen: (opened) => onOpen?.(opened, term),
      onChange: (phase) => {
        if (phase === 'serving') {
          const tookMs = clock.monotonicMs() - startedMs
          onEvent?.({ type: 'serving', term, tookMs, fromCopy: activeTerm.isFromCopy })
        }
        if (phase === 'ended' && activeTerm.ended) onEvent?.({ type: 'ended', term, ...activeTerm.ended })
        this.#announce()
      },
    })
    onEvent?.({ type: 'elected', term })
    if (term < this.#terms.highest) activeTerm.end('superseded')
    return activeTerm
  }
}
