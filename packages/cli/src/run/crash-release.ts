import { once } from 'node:events'
import { Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import type { GuardServer } from 'tenure/internal/guard-server'
import { setBackgroundTimer } from '../shared/clock.ts'

/** The descriptor of the supervisor's end of the pipe. */
const descriptor = 4
/** The kernel closes the wrapper's end with the wrapper. If it stays open, another process has inherited it. */
const longestEndMs = 1_000
/** A guard tries for 10 s at most. A store that ignores its time limit must not keep the supervisor alive. */
const longestReleaseMs = 20_000

/**
 * The guard of the wrapper, in the supervisor. The wrapper's elector registers each call before it sends it, as with
 * any guard. The supervisor decides when the guard may act.
 */
export class CrashRelease {
  readonly #pipe = new Socket({ fd: descriptor, readable: true, writable: false })
  readonly #isEnded: Promise<unknown>
  readonly #registrations = new PassThrough()
  readonly #environment: NodeJS.ProcessEnv
  #guard: Promise<GuardServer | undefined> | undefined

  /** `environment`: the variables by which the wrapper opened its store. */
  constructor(environment: NodeJS.ProcessEnv) {
    this.#environment = environment
    this.#isEnded = once(this.#pipe, 'close')
    this.#pipe.on('error', () => {})
    this.#pipe.on('data', (bytes) => {
      // The library is loaded only if there is something to guard.
      this.#guard ??= this.#load().catch(() => undefined)
      this.#registrations.write(bytes)
    })
  }

  async #load(): Promise<GuardServer> {
    const { GuardServer } = await import('tenure/internal/guard-server')
    return new GuardServer(this.#registrations, { open: (url) => this.#open(url) })
  }

  async #open(url: string) {
    const { openStore } = await import('tenure/stores')
    return openStore(url, { environment: this.#environment })
  }

  /**
   * Lets the guard release the wrapper's lease. Call it only when no process of the command runs and none can be
   * started. Resolves when the lease is released, or left to expire.
   */
  async release(): Promise<void> {
    // Everything that the wrapper wrote before it died must be read first.
    if (!(await within(longestEndMs, this.#isEnded))) return
    const guard = await this.#guard
    if (!guard) return
    this.#registrations.end()
    await within(longestReleaseMs, guard.done)
  }
}

/** Returns whether a promise resolved in time. */
function within(ms: number, promise: Promise<unknown>): Promise<boolean> {
  return new Promise((resolve) => {
    setBackgroundTimer(ms, () => resolve(false))
    void promise.then(() => resolve(true))
  })
}
