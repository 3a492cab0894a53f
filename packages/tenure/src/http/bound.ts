/** The end of a call, by its caller or by its deadline, wherever the call stands. */
export class Bound {
  reason: unknown
  /** How long until the deadline. Undefined where there is none. */
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

  /** What a promise gives, unless the call ends before: nothing that hangs can hold it up. */
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
