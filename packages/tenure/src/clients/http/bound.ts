/** Ends a call when its caller aborts it or its deadline passes, whatever the call is waiting for. */
export class Bound {
  reason: unknown
  /** Time left until the deadline. Undefined if there is no deadline. */
  readonly leftMs: (() => number) | undefined
  readonly #signal: AbortSignal
  readonly #listeners = new Set<(reason: Error) => void>()
  readonly #onAbort = () => this.end(this.#signal.reason)

  constructor(signal: AbortSignal, leftMs?: () => number) {
    this.#signal = signal
    this.leftMs = leftMs
    if (signal.aborted) this.reason = signal.reason
    else signal.addEventListener('abort', this.#onAbort, { once: true })
  }

  get ended(): boolean {
    return this.reason !== undefined
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
      this.onEnd(reject)
      promise.then(
        (value) => {
          this.#listeners.delete(reject)
          resolve(value)
        },
        (error: unknown) => {
          this.#listeners.delete(reject)
          reject(error)
        },
      )
    })
  }

  forget(): void {
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#listeners.clear()
  }
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason))
}
