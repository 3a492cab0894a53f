import type { Clock } from '../clock.ts'
import { Elector } from '../elector.ts'
import { invalidOption, TenureError } from '../errors.ts'
import type { ElectionEvent, Observer } from '../events.ts'
import type { Leadership } from '../leadership.ts'
import type { LeaseStore, Metadata } from '../lease-store.ts'
import { checkName } from '../names.ts'

/** What happens to a {@link LeaderElector}, told in order. */
export interface LeaderCallbacks {
  /** The work: what it returns is waited for before the lease is released. `signal` aborts when leadership ends. */
  onStartedLeading(signal: AbortSignal, leadership: Leadership): Promise<void> | void
  /** Leadership is over and its work has settled. Comes once for each start, never without one. */
  onStoppedLeading?(): void
  /** Somebody else leads now, or this process does. */
  onNewLeader?(identity: string): void
}

/** What a {@link LeaderElector} takes. */
export interface LeaderElectorOptions {
  readonly store: LeaseStore
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
  #seenLeader = ''

  constructor(options: LeaderElectorOptions) {
    const { leaseName, leaseNamespace, identity, leaseDurationMs = 15_000 } = options
    checkName('identity', identity)
    checkName('leaseName', leaseName)
    checkName('leaseNamespace', leaseNamespace)
    this.#callbacks = checkCallbacks(options.callbacks)
    this.#observer = options.observer
    const renewDeadlineMs = options.renewDeadlineMs ?? (leaseDurationMs * 2) / 3
    const retryIntervalMs = options.retryPeriodMs ?? (leaseDurationMs * 2) / 15
    this.#elector = new Elector({
      store: options.store,
      election: `${leaseNamespace}/${leaseName}`,
      identity,
      leaseDurationMs,
      renewDeadlineMs,
      retryIntervalMs,
      renewIntervalMs: renewIntervalOf(leaseDurationMs, renewDeadlineMs, retryIntervalMs),
      releaseOnStop: options.releaseOnCancel,
      drainTimeoutMs: options.drainTimeoutMs,
      metadata: options.metadata,
      clock: options.clock,
      observer: {
        ...options.observer,
        onEvent: (event) => {
          options.observer?.onEvent?.(event)
          this.#on(event)
        },
      },
    })
  }

  /** Campaigns until `signal` aborts; with `once`, returns after the first leadership ended. */
  async run(options: { signal?: AbortSignal | undefined; once?: boolean | undefined } = {}): Promise<void> {
    this.#elector.start({ signal: options.signal, until: options.once ? 'lost' : 'stopped' })
    try {
      for (;;) {
        const leadership = await this.#elector.waitForLeadership()
        const work = this.#work(leadership)
        leadership.waitUntil(work)
        await ended(leadership, work)
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
    return record && !record.released ? record.holder : ''
  }

  async #work(leadership: Leadership): Promise<void> {
    await this.#callbacks.onStartedLeading(leadership.signal, leadership)
    // Work that returns early has not given leadership up, so stopping is what ends it.
    await aborted(leadership)
  }

  #on(event: ElectionEvent): void {
    if (event.type === 'lost') this.#contain('onStoppedLeading', () => this.#callbacks.onStoppedLeading?.())
    if (event.type !== 'new-leader' || event.record.holder === this.#seenLeader) return
    this.#seenLeader = event.record.holder
    this.#contain('onNewLeader', () => this.#callbacks.onNewLeader?.(event.record.holder))
  }

  #contain(name: string, callBack: () => void): void {
    try {
      callBack()
    } catch (cause) {
      const { election, identity } = this.#elector
      const error = new TenureError('WORK_FAILED', `The callback ${name} of "${election}" threw.`, { cause })
      this.#observer?.onEvent?.({ type: 'error', error, election, identity })
    }
  }
}

/** Often enough for the lease, and early enough that one failed renewal can be tried again before the deadline. */
function renewIntervalOf(leaseDurationMs: number, renewDeadlineMs: number, retryPeriodMs: number): number | undefined {
  const intervalMs = Math.min(leaseDurationMs / 3, renewDeadlineMs - retryPeriodMs)
  // Nonsense is left for the elector to refuse by its own name.
  return intervalMs > 0 ? intervalMs : undefined
}

function aborted({ signal }: Leadership): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** The next term is waited for only when this one is over; its work's failures are reported by the elector. */
async function ended(leadership: Leadership, work: Promise<void>): Promise<void> {
  await aborted(leadership)
  await work.catch(() => undefined)
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
