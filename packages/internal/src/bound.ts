/** The part of a clock that a deadline needs. */
interface Timers {
  monotonicMs(): number
  setTimer(delayMs: number, callback: () => void, options?: { background?: boolean | undefined }): { cancel(): void }
}

/** When to stop waiting. */
export interface Deadline {
  readonly clock: Timers
  readonly timeoutMs: number
  /** The error for a call that took longer. */
  readonly late: (timeoutMs: number) => unknown
  /** Whether the process may exit before the deadline. Default: false. */
  readonly background?: boolean
}

/**
 * Ends a call when its caller aborts it or its deadline passes, no matter what the call is waiting for. A request that
 * has been sent may still be applied.
 */
export class Bound {
  reason: unknown
  readonly #signal: AbortSignal | undefined
  readonly #listeners = new Set<(reason: Error) => void>()
  readonly #onAbort = () => this.end(this.#signal?.reason)
  #deadline: { readonly of: Deadline; readonly atMs: number; readonly timer: { cancel(): void } } | undefined

  constructor(signal: AbortSignal | undefined, deadline?: Deadline) {
    this.#signal = signal
    if (signal?.aborted) this.reason = signal.reason
    else signal?.addEventListener('abort', this.#onAbort, { once: true })
    if (deadline) this.giveUpAfter(deadline)
  }

  get ended(): boolean {
    return this.reason !== undefined
  }

  /** Time left until the deadline. Undefined if there is no deadline. */
  get leftMs(): number | undefined {
    return this.#deadline && this.#deadline.atMs - this.#deadline.of.clock.monotonicMs()
  }

  /** Replaces the deadline. It counts from now. */
  giveUpAfter(deadline: Deadline): void {
    this.waitOn()
    const { clock, timeoutMs, late, background = false } = deadline
    const timer = clock.setTimer(timeoutMs, () => this.end(late(timeoutMs)), { background })
    this.#deadline = { of: deadline, atMs: clock.monotonicMs() + timeoutMs, timer }
  }

  /** Removes the deadline. */
  waitOn(): void {
    this.#deadline?.timer.cancel()
    this.#deadline = undefined
  }

  end(reason: unknown): void {
    this.reason ??= reason
    for (const listener of this.#listeners) listener(asError(this.reason))
    this.#listeners.clear()
  }

  onEnd(listener: (reason: Error) => void): void {
    if (this.ended) listener(asError(this.reason))
    else this.#listeners.add(listener)
  }

  /**
   * Resolves like the promise, but rejects when the call ends first, so that a promise that hangs cannot block the
   * call.
   */
  race<T>(promise: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const onEnd = () => reject(this.reason)
      this.onEnd(onEnd)
      promise.then(
        (value) => {
          this.#listeners.delete(onEnd)
          resolve(value)
        },
        (error: unknown) => {
          this.#listeners.delete(onEnd)
          reject(error)
        },
      )
    })
  }

  /** Removes the signal listener and the timer, which keep the call alive. Must be called when the call has ended. */
  forget(): void {
    this.#signal?.removeEventListener('abort', this.#onAbort)
    this.waitOn()
    this.#listeners.clear()
  }
}

/** Runs an action that observes the bound itself. It is not started if the signal has already aborted. */
export async function withBound<T>(
  signal: AbortSignal | undefined,
  deadline: Deadline | undefined,
  action: (bound: Bound) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted()
  const bound = new Bound(signal, deadline)
  try {
    return await action(bound)
  } finally {
    bound.forget()
  }
}

/** Waits for a promise until the signal aborts or the deadline passes. */
export async function within<T>(
  signal: AbortSignal | undefined,
  deadline: Deadline | undefined,
  promise: Promise<T>,
): Promise<T> {
  const bound = new Bound(signal, deadline)
  try {
    return await bound.race(promise)
  } finally {
    bound.forget()
  }
}

/**
 * Makes one call. The call's signal aborts at the end of the bound, and the call then counts as ended, even if it
 * ignores the signal.
 */
export function callWithin<T>(
  signal: AbortSignal | undefined,
  deadline: Deadline | undefined,
  call: (signal: AbortSignal, bound: Bound) => Promise<T>,
): Promise<T> {
  return withBound(signal, deadline, (bound) => {
    const ending = new AbortController()
    bound.onEnd((reason) => ending.abort(reason))
    return bound.race(call(ending.signal, bound))
  })
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason))
}
