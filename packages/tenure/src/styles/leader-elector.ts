import { systemClock, type Clock } from '../clock.ts'
import { Elector } from '../elector.ts'
import { invalidOption, messageOf, TenureError } from '../errors.ts'
import type { ElectionEvent, Observer } from '../events.ts'
import type { Leadership } from '../leadership.ts'
import type { LeaseStore, Metadata } from '../lease-store.ts'
import { checkName } from '../names.ts'
import { checkBoolean, checkObject, checkObserver, checkStore } from '../options.ts'
import { checkDuration } from '../timings.ts'
import { contain, observeToo, reportError, warnOf } from './callbacks.ts'

/** What happens to a {@link LeaderElector}, told in order. */
export interface LeaderCallbacks {
  /** The work: what it returns is waited for before the lease is released. `signal` aborts when leadership ends. */
  onStartedLeading(signal: AbortSignal, leadership: Leadership): Promise<void> | void
  /**
   * Leadership is over and its work has settled, or `drainTimeoutMs` has passed. Comes once for each start, never
   * without one.
   */
  onStoppedLeading?(): void
  /** Somebody else leads now, or this process does. */
  onNewLeader?(identity: string): void
}

/** What a {@link LeaderElector} takes. */
export interface LeaderElectorOptions {
  /** A store that keeps all its leases in one namespace must be given as `leaseNamespace`. */
  readonly store: LeaseStore & { readonly namespace?: string }
  readonly leaseName: string
  readonly leaseNamespace: string
  readonly identity: string | undefined
  /** Default: 15 s. */
  readonly leaseDurationMs?: number | undefined
  /** Default: two thirds of the lease, 10 s. */
  readonly renewDeadlineMs?: number | undefined
  /** Default: 2/15 of the lease, 2 s. */
  readonly retryPeriodMs?: number | undefined
  /** Release the lease when `run` is aborted, so that others need not wait for it to run out. Default: true. */
  readonly releaseOnCancel?: boolean | undefined
  /** How long an aborted `run` waits for the work. Default: 30 s. */
  readonly drainTimeoutMs?: number | undefined
  readonly metadata?: Metadata | undefined
  readonly callbacks: LeaderCallbacks
  readonly clock?: Clock | undefined
  readonly observer?: Observer | undefined
}

/** What {@link LeaderElector.healthCheck} tells a liveness probe. */
export interface Health {
  readonly healthy: boolean
  /** Why, in words. */
  readonly message: string
}

/**
 * Leader election with callbacks, as controllers use it.
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
  readonly #callbacks: LeaderCallbacks
  readonly #observer: Observer | undefined
  readonly #clock: Clock
  /** When the lease that this replica started work under runs out. */
  #heldUntilMs = 0
  #seenLeader = ''
  #started = false
  #leadership: Leadership | undefined

  constructor(options: LeaderElectorOptions) {
    checkObject('options', options)
    checkObserver(options.observer)
    const { leaseName, leaseNamespace, identity, leaseDurationMs = 15_000, releaseOnCancel = true } = options
    checkName('identity', identity)
    checkStore(options.store)
    const election = electionOf(options.store, leaseName, leaseNamespace)
    checkDuration('leaseDurationMs', leaseDurationMs, 1)
    const { renewDeadlineMs = (leaseDurationMs * 2) / 3, retryPeriodMs = (leaseDurationMs * 2) / 15 } = options
    checkBoolean('releaseOnCancel', releaseOnCancel)
    this.#callbacks = checkCallbacks(options.callbacks)
    this.#observer = options.observer
    this.#clock = options.clock ?? systemClock
    this.#elector = new Elector({
      store: options.store,
      election,
      identity,
      leaseDurationMs,
      renewDeadlineMs,
      retryIntervalMs: retryPeriodMs,
      renewIntervalMs: renewIntervalOf(leaseDurationMs, renewDeadlineMs, retryPeriodMs),
      releaseOnStop: releaseOnCancel,
      drainTimeoutMs: options.drainTimeoutMs,
      metadata: options.metadata,
      clock: options.clock,
      observer: observeToo(options.observer, (event) => this.#on(event)),
    })
  }

  /** Campaigns until `signal` aborts; with `once`, returns after the first leadership ended. */
  async run(options: { signal?: AbortSignal | undefined; once?: boolean | undefined } = {}): Promise<void> {
    if (options instanceof AbortSignal) throw invalidOption('options', options, 'it must be an object: { signal }')
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
    }
  }

  /** Whether this process holds the lease now, by the clock: false as soon as it has run out. */
  isLeader(): boolean {
    return this.#elector.isLeader()
  }

  /** The identity of the leader as last seen; empty when nobody leads. */
  getLeader(): string {
    const record = this.#elector.leader()
    if (!record || record.released) return ''
    // The last record seen may be of this replica's own lease, which work that goes on has outlived.
    const isOver = record.term === this.#leadership?.term && this.#leadership.drainMs() === 0
    return isOver ? '' : record.holder
  }

  /**
   * For a liveness probe: not healthy if this replica's lease ran out and its work has not ended `toleranceMs` later,
   * so that others lead while it still works. A standby is healthy.
   */
  healthCheck(options: { toleranceMs?: number | undefined } = {}): Health {
    checkObject('options', options)
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
    warnOf(event, this.#observer)
    if (event.type === 'renewed') this.#noteLease()
    if (event.type === 'lost' && this.#started) {
      this.#started = false
      this.#tell('onStoppedLeading', () => this.#callbacks.onStoppedLeading?.())
    }
    if (event.type !== 'new-leader' || event.record.holder === this.#seenLeader) return
    this.#seenLeader = event.record.holder
    this.#tell('onNewLeader', () => this.#callbacks.onNewLeader?.(event.record.holder))
  }

  #noteLease(): void {
    this.#heldUntilMs = this.#clock.monotonicMs() + (this.#leadership?.drainMs() ?? 0)
  }

  #tell(name: string, callBack: () => unknown): void {
    const { election, identity } = this.#elector
    contain(callBack, (cause) => {
      const error = new TenureError(
        'WORK_FAILED',
        `The callback ${name} of "${election}" failed: ${messageOf(cause)}`,
        { cause },
      )
      reportError(this.#observer, { error, election, identity })
    })
  }
}

/** Often enough for the lease, and early enough that one failed renewal can be tried again before the deadline. */
function renewIntervalOf(leaseDurationMs: number, renewDeadlineMs: number, retryPeriodMs: number): number {
  checkDuration('renewDeadlineMs', renewDeadlineMs, 1)
  checkDuration('retryPeriodMs', retryPeriodMs, 1)
  // Whole milliseconds: the sum of what is left and the retry period must not exceed the deadline by a rounding error.
  if (renewDeadlineMs >= 1.2 * retryPeriodMs) {
    return Math.min(leaseDurationMs / 3, Math.floor(renewDeadlineMs - retryPeriodMs))
  }
  const rule = `renewDeadlineMs (${renewDeadlineMs}) must be at least 1.2 times as long, so that a failed renewal can be tried again`
  throw invalidOption('retryPeriodMs', retryPeriodMs, rule)
}

function aborted({ signal }: Leadership): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

const longestLease = 255

/** The election's name in this store. */
function electionOf(store: { readonly namespace?: string }, leaseName: unknown, leaseNamespace: unknown): string {
  checkName('leaseName', leaseName)
  checkName('leaseNamespace', leaseNamespace)
  if (store.namespace !== undefined) {
    if (store.namespace === leaseNamespace) return leaseName
    throw invalidOption('leaseNamespace', leaseNamespace, `the store keeps its leases in "${store.namespace}"`)
  }
  // The first slash divides the two in the election's name, so that no two leases share one election.
  if (leaseNamespace.includes('/')) throw invalidOption('leaseNamespace', leaseNamespace, 'it must not contain a slash')
  if (Buffer.byteLength(leaseName + leaseNamespace) <= longestLease) return `${leaseNamespace}/${leaseName}`
  throw invalidOption('leaseName', leaseName, `with leaseNamespace it must have at most ${longestLease} bytes of UTF-8`)
}

function checkCallbacks(callbacks: unknown): LeaderCallbacks {
  if (typeof callbacks !== 'object' || callbacks === null || Array.isArray(callbacks)) {
    throw invalidOption('callbacks', callbacks, 'it must be an object with onStartedLeading')
  }
  for (const name of ['onStartedLeading', 'onStoppedLeading', 'onNewLeader']) {
    const callback: unknown = Reflect.get(callbacks, name)
    const optional = name !== 'onStartedLeading' && callback === undefined
    if (typeof callback !== 'function' && !optional) {
      throw invalidOption(`callbacks.${name}`, callback, 'it must be a function')
    }
  }
  return callbacks as LeaderCallbacks
}
