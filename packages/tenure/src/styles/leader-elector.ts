import { contain } from '@tenure/internal/contain'
import { messageOf } from '@tenure/internal/message'
import { systemClock, type Clock } from '../clock.ts'
import { Elector } from '../elector.ts'
import { fullName, TenureError } from '../errors.ts'
import type { ElectionEvent } from '../events.ts'
import type { Explanation } from '../explain.ts'
import type { Leadership } from '../leadership.ts'
import { checkBoolean } from '../options.ts'
import { checkOptions } from '../options/check-options.ts'
import { checkDuration } from '../timings.ts'
import { holderOf, KnownLeader, type SeenLease } from './known-leader.ts'
import {
  checkCallbacks,
  leaderElectorNames,
  timingsLikeClientGo,
  type LeaderCallbacks,
  type LeaderElectorOptions,
} from './leader-elector-options.ts'
import { leasePlaceOf, type LeasePlace } from './lease-client.ts'
import { checkIdentity, electionOf } from './lease-election.ts'

/** What {@link LeaderElector.healthCheck} answers to a liveness probe. */
export interface Health {
  readonly healthy: boolean
  /** Why, in words. */
  readonly message: string
}

/**
 * Leader election with callbacks, as controllers use it: on a Lease of Kubernetes with `client`, or on any store with
 * `store`.
 *
 * @example
 * const elector = new LeaderElector({
 *   store, leaseName: 'my-app', leaseNamespace: 'default', identity: process.env.POD_NAME,
 *   callbacks: { onStartedLeading: (signal) => reconcile({ signal }) },
 * })
 * await elector.run({ signal })
 */
export class LeaderElector {
  readonly #elector: Elector
  readonly #place: LeasePlace
  readonly #callbacks: LeaderCallbacks
  readonly #clock: Clock
  readonly #leader: KnownLeader
  /** When the lease that this replica started work under runs out. */
  #heldUntilMs = 0
  #started = false
  #leadership: Leadership | undefined

  constructor(options: LeaderElectorOptions) {
    checkOptions('LeaderElector', options, leaderElectorNames)
    const { leaseName, leaseNamespace, identity, leaseDurationMs = 15_000, releaseOnCancel = true } = options
    checkIdentity(identity)
    this.#place = leasePlaceOf(options, (error) => this.#elector.reportError(error))
    const { store } = this.#place
    const election = electionOf(store, leaseName, leaseNamespace)
    checkDuration('leaseDurationMs', leaseDurationMs, 1)
    const timings = timingsLikeClientGo({ ...options, leaseDurationMs })
    checkBoolean('releaseOnCancel', releaseOnCancel)
    this.#callbacks = checkCallbacks(options.callbacks)
    this.#clock = options.clock ?? systemClock
    this.#elector = new Elector({
      store,
      election,
      identity,
      ...timings,
      releaseOnStop: releaseOnCancel,
      drainTimeoutMs: options.drainTimeoutMs,
      metadata: options.metadata,
      clock: options.clock,
      observer: options.observer,
      log: options.log,
    })
    this.#elector.onEvent = (event) => this.#on(event)
    this.#leader = new KnownLeader({
      clock: this.#clock,
      // Where both must poll, a look may come a period after a try, and that one and a half after the release.
      graceMs: (store.watch ? 2 : 3) * timings.retryIntervalMs,
      lease: () => this.#leaseSeen(),
      onChange: (leader) => this.#callBack('onNewLeader', () => this.#callbacks.onNewLeader?.(leader)),
    })
    this.#elector.onStep = () => this.#leader.look()
  }

  /** Campaigns until `signal` aborts; with `once`, returns after the first leadership ended. */
  async run(options: { signal?: AbortSignal | undefined; once?: boolean | undefined } = {}): Promise<void> {
    checkOptions('run()', options, { signal: true, once: true })
    this.#elector.start({ signal: options.signal, until: options.once ? 'lost' : 'stopped' })
    try {
      for (;;) {
        const leadership = await this.#elector.waitForLeadership()
        // A callback may have stopped it at the moment of election, and its lease may be given back by now.
        if (!leadership.isLeader()) continue
        this.#leadership = leadership
        this.#started = true
        this.#noteLease()
        // Registered before it starts: work that ends its own campaign at once must be waited for too.
        leadership.waitUntil(Promise.resolve().then(() => this.#work(leadership)))
        // The elector waits for the work, and the next leadership comes only after it.
        await aborted(leadership)
      }
    } catch {
      // The elector stops, by the signal or after its first loss. It ends only when the release has been tried.
      await this.#elector.stop()
      this.#leader.end()
    }
    await this.#place.close()
  }

  /** Whether this process holds the lease now, by the clock: false as soon as it has run out. */
  isLeader(): boolean {
    return this.#elector.isLeader()
  }

  /** The leader's identity as last seen; empty if there is no leader: the lease seen has run out or was given back. */
  getLeader(): string {
    return holderOf(this.#leaseSeen())
  }

  /** Why this replica leads or does not, which one leads, when the lease ends, and the last errors. */
  explain(): Explanation {
    return this.#elector.explain()
  }

  /**
   * Gives leadership up once its work has settled, and stays out for `cooldownMs` (default: one lease duration).
   * Resolves when the lease is released, or left to run out because work did not settle. A `run` with `once` ends then.
   */
  stepDown(options: { cooldownMs?: number | undefined } = {}): Promise<void> {
    return this.#elector.stepDown(options)
  }

  /**
   * For a liveness probe: not healthy if this replica's lease ran out and its work has not ended `toleranceMs` later,
   * so that others lead while it still works. A standby is healthy.
   */
  healthCheck(options: { toleranceMs?: number | undefined } = {}): Health {
    checkOptions('healthCheck()', options, { toleranceMs: true })
    const { toleranceMs = 0 } = options
    checkDuration('toleranceMs', toleranceMs)
    if (!this.#started) return { healthy: true, message: 'This replica does not lead.' }
    if (this.isLeader()) {
      const leftMs = Math.round(this.#leadership?.remainingMs() ?? 0)
      return { healthy: true, message: `This replica leads; unless its lease is renewed, that ends in ${leftMs} ms.` }
    }
    const overMs = this.#clock.monotonicMs() - this.#heldUntilMs
    if (overMs <= toleranceMs) return { healthy: true, message: 'Leadership has ended, and its work is winding down.' }
    const message = `The lease ran out ${Math.round(overMs)} ms ago, and the work of this replica has not ended.`
    return { healthy: false, message }
  }

  async #work(leadership: Leadership): Promise<void> {
    await this.#callbacks.onStartedLeading(leadership.signal, leadership)
    // Work that returns early has not given leadership up, so stopping is what ends it.
    await aborted(leadership)
  }

  #on(event: ElectionEvent): void {
    this.#place.events?.onEvent(event)
    if (event.type === 'renewed') this.#noteLease()
    if (event.type === 'lost' && this.#started) {
      this.#started = false
      this.#callBack('onStoppedLeading', () => this.#callbacks.onStoppedLeading?.())
    }
  }

  #leaseSeen(): SeenLease | undefined {
    const seen = this.#elector.leaseSeen()
    // The last record seen may be of this replica's own lease, which it has lost or outlived.
    const isOver = seen?.record.term === this.#leadership?.term && this.#leadership?.drainMs() === 0
    return isOver && !seen?.record.released ? undefined : seen
  }

  #noteLease(): void {
    this.#heldUntilMs = this.#clock.monotonicMs() + (this.#leadership?.drainMs() ?? 0)
  }

  #callBack(name: string, callback: () => unknown): void {
    contain(callback, (cause) => {
      const error = new TenureError(
        'WORK_FAILED',
        `The callback ${name} of "${fullName(this.#elector)}" failed: ${messageOf(cause)}`,
        { cause },
      )
      this.#elector.reportError(error)
    })
  }
}

function aborted({ signal }: Leadership): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
