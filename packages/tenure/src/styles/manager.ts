import { Elector, type ElectorOptions } from '../elector.ts'
import { TenureError } from '../errors.ts'
import type { ElectionEvent, Observer } from '../events.ts'
import type { Leadership } from '../leadership.ts'
import { checkObject, checkObserver } from '../options.ts'
import { contain, observeToo, warnOf } from './callbacks.ts'

/** What a {@link Manager} takes: an elector's options. Three failed renewals in a row end leadership unless told otherwise. */
export type ManagerOptions = ElectorOptions

/**
 * A lease to ask. It is safe to ask in tight loops.
 *
 * @example
 * while (!stopping) {
 *   await lease.waitForLeadership({ signal })
 *   while (lease.isLeader()) await doWork()
 * }
 */
export class Lease {
  readonly #elector: Elector

  /** @internal */
  constructor(elector: Elector) {
    this.#elector = elector
  }

  /** Whether this process leads now, by the clock. */
  isLeader(): boolean {
    return this.#elector.isLeader()
  }

  /** Resolves with the leadership as soon as this process leads; rejects when `signal` aborts or the manager stops. */
  waitForLeadership(options: { signal?: AbortSignal | undefined } = {}): Promise<Leadership> {
    return this.#elector.waitForLeadership(options)
  }
}

/**
 * Keeps a process in an election, and tells it through a {@link Lease} whether it leads.
 *
 * @example
 * const manager = new Manager({ store, election: 'jobs', identity: process.env.POD_NAME })
 * manager.onError = (error) => console.error(error)
 * const lease = manager.start({ signal })
 * while (!signal.aborted) {
 *   if (lease.isLeader()) await processNextJob()
 *   await wait(1_000)
 * }
 * await manager.stop()
 */
export class Manager {
  /** Told of every error of the store; the manager goes on by itself. */
  onError: ((error: unknown) => void) | undefined
  readonly #elector: Elector

  readonly #observer: Observer | undefined

  constructor(options: ManagerOptions) {
    checkObject('options', options)
    checkObserver(options.observer)
    const { maxFailedRenewals = 3, observer } = options
    this.#observer = observer
    this.#elector = new Elector({
      ...options,
      maxFailedRenewals,
      observer: observeToo(observer, (event) => this.#report(event)),
    })
  }

  /** Begins to campaign and returns at once. */
  start(options: { signal?: AbortSignal | undefined } = {}): Lease {
    this.#elector.start(options)
    return new Lease(this.#elector)
  }

  /** Stops and releases leadership if held; rejects if the release failed, in which case the lease runs out by itself. */
  async stop(): Promise<void> {
    await this.#elector.stop()
    const cause = this.#elector.releaseError
    if (cause === undefined) return
    const { election } = this.#elector
    throw new TenureError('RELEASE_FAILED', `The lease of "${election}" could not be released; it will run out.`, {
      cause,
    })
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  #report(event: ElectionEvent): void {
    if (event.type !== 'error' && event.type !== 'renew-failed') return
    const { election, identity } = event
    if (!this.onError) warnOf(event, this.#observer)
    contain(
      () => this.onError?.(event.error),
      (cause) => {
        const error = new TenureError('WORK_FAILED', `The onError of "${election}" failed.`, { cause })
        this.#observer?.onEvent?.({ type: 'error', error, election, identity })
      },
    )
  }
}
