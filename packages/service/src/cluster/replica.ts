/**
 * A replica of the service: it takes part in the election of the active one, and answers for all groups while it is that.
 *
 * Why clients of two replicas never lead one group at once, although every replica, every message and every server may
 * stop, fail or be late at any moment. A is active in term a; B is elected after it, in term b; a client counts its lease
 * from its own sending.
 *
 *  1. Elections. The elector's belief ends before the store grants the next term, on a clock that counts stalls and sleep.
 *     So whatever A answers in the same step in which `isLeader()` is true comes before B's election. Every answer asks
 *     there: grants, renewals, refusals, reads, pages; and again after every await. Keeps: answers are in one order.
 *  2. Swap before load. B appends an empty batch with a head of term b, strictly above the one it found, and only then
 *     loads, into empty memory. Each append names the head that it follows, so from the swap on everything of A is fenced,
 *     however late it arrives; what came before is in what B loads. Keeps: nothing durable is unknown to the active one.
 *  3. The head that was swapped is the head that is loaded. If another is found, somebody has swapped since, and B ends.
 *     Keeps: the same, for B itself.
 *  4. Unknown appends are settled by a write, the swap too: `Journal` repeats or gives up that batch, and sends nothing
 *     else before. A head that was only read may be of a commit that a failover loses; then A's late "ended" would be
 *     taken after all, and a third replica would grant while B still confirms its holder. Keeps: 2.
 *  5. Promises. A confirms no duration that is longer than the longest that the record of the term has: a longer one is
 *     written first. B counts every live lease for that longest duration from one moment, when it begins to serve. The
 *     client's sending precedes A's question, which precedes B's election, which precedes B's first moment. So B's next
 *     grant comes after every belief in A's, and no grace is needed: a directory needs one because its owner learns of its
 *     loss up to 5 s late, while here A is silent before B exists. A pause between A's question and its reply changes
 *     nothing: the client does not count from the reply. Keeps: a lease that was granted lasts as long as was promised.
 *  6. Ends. A reign ends at the first of: leadership lost, an append fenced, a higher term seen anywhere. From that step on
 *     nothing is answered, all who wait are refused with an error after which they may ask another replica, and nothing
 *     more is sent to the storage. Only when nothing is under way any more does this replica campaign again, and it begins
 *     with empty memory. Keeps: 1 and 2, over many reigns of one process.
 *     A term that another replica named is obeyed in that step, but not for ever: see heard-terms.ts.
 *  7. A lost lease key elects nobody beside a living A: the lease store reports at least the head's term as the highest, a
 *     highest term without a record counts as held for a whole lease, A's renewals fail meanwhile, and the swap needs a
 *     term strictly above the head's. Keeps: 1, where the record of the election was lost.
 *  8. A storage that lost what it had confirmed is noticed at the swap, and nobody is granted anything for the longest
 *     lease and one lease of a replica: see lost-tail.ts. The second part is for leases that are kept in the same storage:
 *     a lease that comes back in an earlier version may look expired while A still believes in a later one.
 *  9. A clean stop takes no new calls, answers those under way while it still leads, and releases the lease after that.
 *     Keeps: a hand-over costs one notification, and no answer.
 *
 * Not covered: a machine whose clocks all stood still, as a paused virtual machine. It may confirm renewals of healthy
 * clients until it hears a higher term in any call. For these, guard what is written to with the term of the group.
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
import type { LocalGroups } from '../groups/local-groups.ts'
import type { Position } from '../storage/position.ts'
import type { Storage } from '../storage/storage.ts'
import { HeardTerms } from './heard-terms.ts'
import { ConfirmedHead } from './lost-tail.ts'
import { isSamePlace, nowhere, type Place, type Places } from './place.ts'
import { Reign, type EndOfReign, type GroupsOptions } from './reign.ts'

/** What happens to a replica, for logs and metrics. */
export type ReplicaEvent =
  | { readonly type: 'elected'; readonly term: number }
  /** The storage had lost data that were confirmed: terms are skipped, and nobody leads anything for a while. */
  | { readonly type: 'tail-lost'; readonly term: number; readonly heldMs: number }
  | { readonly type: 'serving'; readonly term: number; readonly tookMs: number }
  | { readonly type: 'ended'; readonly term: number; readonly why: EndOfReign; readonly error: Error }

/** What a {@link Replica} takes. */
export interface ReplicaOptions {
  readonly storage: Storage
  /** Reports at least the term of the storage's head as the highest. */
  readonly leases: LeaseStore
  readonly clock: Clock
  /** Where the other replicas reach this one while it is active. */
  readonly address: string
  /** The name of this replica. No other has it. */
  readonly replica: string
  /** Of the program. */
  readonly version: string
  readonly groups: GroupsOptions
  /** Of the storage's head when this replica began. Default: 0. */
  readonly restores?: number | undefined
  /** Default: 3 s. */
  readonly leaseMs?: number | undefined
  /** How far each clock's rate may be off. Default: as in every election. */
  readonly driftRatio?: number | undefined
  readonly observer?: Observer | undefined
  /** Called before the first question can be answered: who follows from there on misses nothing. */
  readonly onOpen?: ((groups: LocalGroups, term: number) => void) | undefined
  readonly onEvent?: ((event: ReplicaEvent) => void) | undefined
  /** Called when a term that was seen turned out to be nobody's: it must not be passed on any more. */
  readonly onForgotten?: ((term: number) => void) | undefined
}

const election = 'active'

export class Replica implements Places {
  readonly #options: ReplicaOptions
  readonly #elector: Elector
  readonly #retryMs: number
  readonly #leaseMs: number
  readonly #confirmed: ConfirmedHead
  readonly #wakes = new Set<() => void>()
  readonly #over = new AbortController()
  readonly #terms: HeardTerms
  #reign: Reign | undefined
  #place: Place = nowhere
  #campaign: Promise<void> | undefined
  #stopped: Promise<void> | undefined

  constructor(options: ReplicaOptions) {
    const { leases, clock, address, replica, version, driftRatio } = options
    const timings = { leaseDurationMs: options.leaseMs ?? 3_000, driftRatio }
    this.#options = options
    this.#confirmed = new ConfirmedHead(options.restores ?? 0)
    this.#retryMs = resolveTimings(timings).retryIntervalMs
    this.#leaseMs = timings.leaseDurationMs
    this.#terms = new HeardTerms({
      clock,
      retryMs: this.#retryMs,
      signal: this.#over.signal,
      headTerm: async () => (await options.storage.head()).term,
      recordTerm: () => this.#elector.leader()?.term ?? 0,
      onHigher: (term) => this.#superseded(term),
      onForgotten: (term) => {
        options.onForgotten?.(term)
        this.#announce()
      },
    })
    this.#elector = new Elector({
      ...timings,
      store: leases,
      election,
      identity: replica,
      metadata: { address, replica, version },
      clock,
      observer: {
        onEvent: (event) => this.#heard(event),
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
    this.#campaign = this.#reignAgainAndAgain()
  }

  /** Hands over, if this replica is active. Settles in bounded time. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    this.#over.abort()
    await this.#reign?.retire()
    await this.#elector.stop()
    await this.#campaign
  }

  /**
   * Somebody has heard of an active replica in this term. If it is above one's own, this one has a successor. False: that
   * was not so before, and is not believed unless the storage or the election says so too.
   */
  sawTerm(term: number): boolean {
    return this.#terms.heard(term)
  }

  #superseded(term: number): void {
    if (this.#reign && this.#reign.term < term) this.#reign.end('superseded')
    this.#announce()
  }

  /** The active replica has told of a change there, which was durable before. If the storage has less, it has lost it. */
  heard(position: Position): void {
    this.#confirmed.heard(position)
  }

  /** Whoever asks may be the first to find another place, as when the lease has just run out: all who wait hear of it. */
  now(): Place {
    const place = this.#find()
    if (isSamePlace(place, this.#place)) return this.#place
    this.#place = place
    for (const wake of this.#wakes) wake()
    return place
  }

  async changed(known: Place, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && isSamePlace(this.now(), known)) {
      await new Promise<void>((resolve) => {
        const wake = () => {
          this.#wakes.delete(wake)
          signal.removeEventListener('abort', wake)
          resolve()
        }
        this.#wakes.add(wake)
        signal.addEventListener('abort', wake, { once: true })
      })
    }
  }

  #find(): Place {
    const groups = this.#reign?.serving
    if (this.#reign && groups) return { kind: 'here', term: this.#reign.term, groups }
    const record = this.#elector.leader()
    if (!record || record.released || record.holder === this.#elector.identity) return nowhere
    // A higher one is known, and not where it is.
    if (record.term < this.#terms.highest) return nowhere
    const { address } = record.metadata
    if (typeof address !== 'string') return nowhere
    return { kind: 'elsewhere', term: record.term, address, replica: record.holder }
  }

  #announce(): void {
    this.now()
  }

  #heard(event: ElectionEvent): void {
    this.#options.observer?.onEvent?.(event)
    if (event.type === 'new-leader') this.#terms.found(event.record.term)
    this.#announce()
  }

  async #reignAgainAndAgain(): Promise<void> {
    for (;;) {
      // It rejects when the elector was stopped.
      const leadership = await this.#elector.waitForLeadership().catch(() => undefined)
      if (!leadership) return
      this.#reign = this.#reignOf(leadership)
      const over = this.#reign.run()
      try {
        leadership.waitUntil(over)
      } catch {
        // It was lost in between, which ends the reign.
      }
      await over
      const why = this.#reign.ended?.why
      this.#reign = undefined
      // What failed here may succeed elsewhere: the others have a whole lease to try. A leader that is fenced all the same
      // knows that the storage has lost something, and the others may not: it tries again at once.
      if (leadership.isLeader()) await this.#elector.stepDown(why === 'fenced' ? { cooldownMs: 0 } : {})
    }
  }

  #reignOf(leadership: Leadership): Reign {
    const { storage, clock, groups, onOpen, onEvent } = this.#options
    const { term } = leadership
    const startedMs = clock.monotonicMs()
    const reign: Reign = new Reign(leadership, {
      storage,
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
        if (phase === 'serving') onEvent?.({ type: 'serving', term, tookMs: clock.monotonicMs() - startedMs })
        if (phase === 'ended' && reign.ended) onEvent?.({ type: 'ended', term, ...reign.ended })
        this.#announce()
      },
    })
    onEvent?.({ type: 'elected', term })
    if (term < this.#terms.highest) reign.end('superseded')
    return reign
  }
}
