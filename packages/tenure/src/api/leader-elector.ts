import { callSafely } from '@tenure/internal/call-safely'
import { messageOf } from '@tenure/internal/message'
import { systemClock, type Clock } from '../common/clock.ts'
import { Elector } from '../engine/elector.ts'
import type { StepDownOptions } from '../engine/step-down.ts'
import { fullName, TenureError } from '../common/errors.ts'
import type { ElectionEvent } from '../engine/events.ts'
import type { Explanation } from '../engine/explain.ts'
import type { Leadership } from '../engine/leadership.ts'
import { checkBoolean } from '../engine/check-values.ts'
import { checkOptions } from '../common/check-options.ts'
import { checkDuration } from '../engine/timings.ts'
import { holderOf, LeaderTracker, type TrackedLease } from './leader-tracker.ts'
import {
  checkCallbacks,
  leaderElectorNames,
  timingsLikeClientGo,
  type LeaderCallbacks,
  type LeaderElectorOptions,
} from './leader-elector-options.ts'
import { leaseBackendOf, type LeaseBackend } from './lease-backend.ts'
import { checkIdentity, electionOf } from './leader-elector-names.ts'

/** The result of {@link LeaderElector.healthCheck}, for a liveness probe. */
export interface Health {
  readonly healthy: boolean
  /** The reason, as readable text. */
  readonly message: string
}

/**
 * Leader election with callbacks, as controllers use it: on a Kubernetes Lease with `client`, or on any store with
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
  readonly #place: LeaseBackend
  readonly #callbacks: LeaderCallbacks
  readonly #clock: Clock
  readonly #leader: LeaderTracker
  /** When the lease under which this replica started its work expires. */
  #heldUntilMs = 0
  #started = false
  #leadership: Leadership | undefined

  constructor(options: LeaderElectorOptions) {
    checkOptions('LeaderElector', options, leaderElectorNames)
    const { leaseName, leaseNamespace, identity, leaseDurationMs = 15_000, releaseOnCancel = true } = options
    checkIdentity(identity)
    this.#place = leaseBackendOf(options, (error) => this.#elector.reportError(error))
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
      releaseOnCrash: options.releaseOnCrash,
      drainTimeoutMs: options.drainTimeoutMs,
      metadata: options.metadata,
      eligible: options.eligible,
      ineligibleForMs: options.ineligibleForMs,
      priority: options.priority,
      progressTimeoutMs: options.progressTimeoutMs,
      present: options.present,
      generation: options.generation,
      maxMembers: options.maxMembers,
      clock: options.clock,
      observer: options.observer,
      log: options.log,
    })
    this.#elector.onEvent = (event) => this.#on(event)
    this.#leader = new LeaderTracker({
      clock: this.#clock,
      // If both replicas must poll, the next acquire may come one and a half periods after the release, and the next
      // read one period after that.
      graceMs: (store.watch ? 2 : 3) * timings.retryIntervalMs,
      lease: () => this.#leaseSeen(),
      onChange: (leader) => this.#callBack('onNewLeader', () => this.#callbacks.onNewLeader?.(leader)),
    })
    this.#elector.onStep = () => this.#leader.look()
  }

  /** Campaigns until `signal` aborts. With `once`, it returns after the first leadership has ended. */
  async run(options: { signal?: AbortSignal | undefined; once?: boolean | undefined } = {}): Promise<void> {
    checkOptions('run()', options, { signal: true, once: true })
    this.#elector.start({ signal: options.signal, until: options.once ? 'lost' : 'stopped' })
    try {
      for (;;) {
        const leadership = await this.#elector.waitForLeadership()
        // A callback may have stopped the elector at the moment of election, and its lease may already be released.
        if (!leadership.isLeader()) continue
        this.#leadership = leadership
        this.#started = true
        this.#noteLease()
        // Register the work before it starts, so that work that immediately ends its own campaign is also awaited.
        leadership.waitUntil(Promise.resolve().then(() => this.#work(leadership)))
        // The elector waits for the work, and the next leadership starts only after that.
        await aborted(leadership)
      }
    } catch {
      // The elector stops because of the signal or after its first loss. Wait until it has tried to release the lease.
      await this.#elector.stop()
      this.#leader.end()
    }
    await this.#place.close()
  }

  /** Whether this process holds the lease now, according to the clock. False as soon as the lease has expired. */
  isLeader(): boolean {
    return this.#elector.isLeader()
  }

  /**
   * The identity of the last observed leader. Empty if there is no leader, because the observed lease has expired or
   * was released.
   */
  getLeader(): string {
    return holderOf(this.#leaseSeen())
  }

  /** Explains why this replica leads or not, which one leads, when the lease ends, and the last errors. */
  explain(): Explanation {
    return this.#elector.explain()
  }

  /**
   * Gives up leadership after its work has settled, and stays out of the election for `cooldownMs` (default: one lease
   * duration). With `to`, the release names the candidate that should lead next. Resolves when the lease is released,
   * or when it is left to expire because work did not settle. A `run` with `once` then ends.
   */
  stepDown(options: StepDownOptions = {}): Promise<void> {
    return this.#elector.stepDown(options)
  }

  /**
   * Returns the health of this replica, for a liveness probe. The replica is unhealthy if its lease expired and its
   * work is still running `toleranceMs` later, because another replica may lead at the same time. A standby is healthy.
   */
  healthCheck(options: { toleranceMs?: number | undefined } = {}): Health {
    checkOptions('healthCheck()', options, { toleranceMs: true })
    const { toleranceMs = 0 } = options
    checkDuration('toleranceMs', toleranceMs)
    if (!this.#started) return { healthy: true, message: 'This replica does not lead.' }
    if (this.isLeader()) {
      const leftMs = Math.round(this.#leadership?.remainingMs() ?? 0)
      return { healthy: true, message: `This replica leads. Without a renewal, leadership ends in ${leftMs} ms.` }
    }
    const overMs = this.#clock.monotonicMs() - this.#heldUntilMs
    if (overMs <= toleranceMs) return { healthy: true, message: 'Leadership has ended, and its work is winding down.' }
    const message = `The lease expired ${Math.round(overMs)} ms ago, but the work of this replica is still running.`
    return { healthy: false, message }
  }

  async #work(leadership: Leadership): Promise<void> {
    await this.#callbacks.onStartedLeading(leadership.signal, leadership)
    // Work that returns early does not end leadership. Only stopping does.
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

  #leaseSeen(): TrackedLease | undefined {
    const seen = this.#elector.leaseSeen()
    // The last record may show this replica's own lease, which it has lost or which has expired.
    const isOver = seen?.record.term === this.#leadership?.term && this.#leadership?.drainMs() === 0
    return isOver && !seen?.record.released ? undefined : seen
  }

  #noteLease(): void {
    this.#heldUntilMs = this.#clock.monotonicMs() + (this.#leadership?.drainMs() ?? 0)
  }

  #callBack(name: string, callback: () => unknown): void {
    callSafely(callback, (cause) => {
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
