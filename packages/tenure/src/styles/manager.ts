import { contain } from '@tenure/internal/contain'
import { messageOf } from '@tenure/internal/message'
import { Elector, electorNames, type ElectorOptions, type StartOptions } from '../elector.ts'
import { fullName, invalidOption, TenureError } from '../errors.ts'
import type { ElectionEvent } from '../events.ts'
import { isEndByRequest, type Leadership } from '../leadership.ts'
import { checkOptions } from '../options/check-options.ts'

/** What a {@link Manager} takes: an elector's options. Three failed renewals in a row end leadership unless `maxFailedRenewals` says otherwise. */
export type ManagerOptions = ElectorOptions

/**
 * A lease to ask, and to work under. It is safe to ask in tight loops.
 *
 * @example
 * while (!signal.aborted) {
 *   await lease.run((leadership) => processJobs(leadership.signal))
 *   await wait(1_000, undefined, { signal }).catch(() => {}) // until the next round, or the end
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

  /**
   * Runs one round of work if this process leads now, and keeps the lease until that has settled: a manager that is
   * stopped meanwhile goes on renewing, for `drainTimeoutMs` at most, and nobody else leads.
   *
   * Resolves with true when the work has ended; with false if this process does not lead, or if the work ended early
   * because its signal aborted. Rejects with whatever else the work throws. It settles after the event loop has had a
   * turn, so that a loop of rounds without any wait still renews.
   *
   * @example
   * const ran = await lease.run(async ({ term, signal }) => {
   *   for (const job of await nextJobs({ signal })) await process(job, { fence: term })
   * })
   */
  async run(work: (leadership: Leadership) => unknown): Promise<boolean> {
    if (typeof work !== 'function') throw invalidOption('work', work, 'it must be a function that takes the leadership')
    const leadership = this.#elector.currentLeadership()
    if (!leadership) {
      await turn()
      return false
    }
    let settle = (): void => undefined
    // The elector knows of it before it begins: work that stops its own manager at once must be waited for too.
    leadership.waitUntil(new Promise<void>((resolve) => (settle = resolve)))
    try {
      await work(leadership)
      return true
    } catch (error) {
      if (isEndByRequest(error, leadership)) return false
      throw error
    } finally {
      settle()
      await turn()
    }
  }
}

/** Lets timers and answers of the store have their turn: a loop of rounds that wait for nothing would starve renewals. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/**
 * Keeps a process in an election. A {@link Lease} says whether it leads.
 *
 * @example
 * const manager = new Manager({ store, election: 'jobs', identity: process.env.POD_NAME })
 * manager.onError = (error) => console.error(error)
 * const lease = manager.start({ signal })
 * while (!signal.aborted) {
 *   await lease.run(processJobs)
 *   await wait(1_000, undefined, { signal }).catch(() => {}) // until the next round, or the end
 * }
 * await manager.stop()
 */
export class Manager {
  /** Called with every error of the store; the manager goes on by itself. What it throws or rejects with is reported. */
  onError: ((error: unknown) => void) | undefined
  readonly #elector: Elector

  constructor(options: ManagerOptions) {
    checkOptions('Manager', options, electorNames)
    const { maxFailedRenewals = 3 } = options
    this.#elector = new Elector({ ...options, maxFailedRenewals })
    this.#elector.onEvent = (event) => this.#on(event)
  }

  /** Begins to campaign and returns at once. */
  start(options: StartOptions = {}): Lease {
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

  #on(event: ElectionEvent): void {
    if (event.type !== 'error' && event.type !== 'renew-failed') return
    contain(
      () => this.onError?.(event.error),
      (cause) => {
        const text = `The onError of "${fullName(this.#elector)}" failed: ${messageOf(cause)}`
        this.#elector.reportError(new TenureError('WORK_FAILED', text, { cause }))
      },
    )
  }
}
