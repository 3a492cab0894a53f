import { callSafely } from '@tenure/internal/call-safely'
import { messageOf } from '@tenure/internal/message'
import { Elector, electorNames, type ElectorOptions, type StartOptions } from '../engine/elector.ts'
import { fullName, invalidOption, TenureError } from '../common/errors.ts'
import type { ElectionEvent } from '../engine/events.ts'
import { isAbortOfTerm, type Leadership } from '../engine/leadership.ts'
import type { StepDownOptions } from '../engine/step-down.ts'
import { checkOptions } from '../common/check-options.ts'

/** Options of a {@link Manager}: those of an elector, except that `maxFailedRenewals` defaults to 3. */
export type ManagerOptions = ElectorOptions

/**
 * A handle for checking leadership and working under it. It is cheap enough to check in tight loops.
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

  /** Whether this process leads now, according to the clock. */
  isLeader(): boolean {
    return this.#elector.isLeader()
  }

  /** Resolves with the leadership as soon as this process leads. Rejects when `signal` aborts or the manager stops. */
  waitForLeadership(options: { signal?: AbortSignal | undefined } = {}): Promise<Leadership> {
    return this.#elector.waitForLeadership(options)
  }

  /**
   * Runs one round of work if this process leads now, and keeps the lease until the work has settled. If the manager is
   * stopped in the meantime, it continues to renew for at most `drainTimeoutMs`, and no other process leads.
   *
   * Resolves with true when the work has ended. Resolves with false if this process does not lead, or if the work ended
   * early because its signal aborted. Rejects with any other error that the work throws. It settles only after a turn
   * of the event loop, so that renewals still happen in a loop of rounds without any wait.
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
    // Register the work before it starts, so that work that immediately stops its own manager is also awaited.
    leadership.waitUntil(new Promise<void>((resolve) => (settle = resolve)))
    try {
      await work(leadership)
      return true
    } catch (error) {
      if (isAbortOfTerm(error, leadership)) return false
      throw error
    } finally {
      settle()
      await turn()
    }
  }
}

/**
 * Gives timers and store answers a turn of the event loop. Otherwise a loop of rounds without any wait would starve
 * renewals.
 */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/**
 * Keeps a process in an election. Its {@link Lease} says whether the process leads.
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
  /**
   * Called with every store error. The manager continues on its own. Errors that this callback throws or rejects with
   * are reported.
   */
  onError: ((error: unknown) => void) | undefined
  readonly #elector: Elector

  constructor(options: ManagerOptions) {
    checkOptions('Manager', options, electorNames)
    const { maxFailedRenewals = 3 } = options
    this.#elector = new Elector({ ...options, maxFailedRenewals })
    this.#elector.onEvent = (event) => this.#on(event)
  }

  /** Starts campaigning and returns immediately. */
  start(options: StartOptions = {}): Lease {
    this.#elector.start(options)
    return new Lease(this.#elector)
  }

  /**
   * Gives up leadership after its work has settled, and stays out of the election for `cooldownMs` (default: one lease
   * duration). With `to`, the release names the candidate that should lead next.
   */
  stepDown(options: StepDownOptions = {}): Promise<void> {
    return this.#elector.stepDown(options)
  }

  /**
   * Stops and releases leadership if held. Rejects if the release failed. In that case the lease expires on its own.
   */
  async stop(): Promise<void> {
    await this.#elector.stop()
    const cause = this.#elector.releaseError
    if (cause === undefined) return
    const { election } = this.#elector
    throw new TenureError(
      'RELEASE_FAILED',
      `The lease of "${election}" could not be released. It will expire on its own.`,
      {
        cause,
      },
    )
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  #on(event: ElectionEvent): void {
    if (event.type !== 'error' && event.type !== 'renew-failed') return
    callSafely(
      () => this.onError?.(event.error),
      (cause) => {
        const text = `The onError callback of "${fullName(this.#elector)}" failed: ${messageOf(cause)}`
        this.#elector.reportError(new TenureError('WORK_FAILED', text, { cause }))
      },
    )
  }
}
