/** The watches of a store: each ends with its reader's signal, and all of them when the store is closed. */
export class Watches {
  readonly #open = new Set<AbortController>()

  /** What `follow` gives, until one of the two ends it. Errors that this ending causes are dropped. */
  async *run<T>(
    signal: AbortSignal,
    follow: (signal: AbortSignal) => AsyncGenerator<T, void, undefined>,
  ): AsyncGenerator<T, void, undefined> {
    if (signal.aborted) return
    const closing = new AbortController()
    const end = () => closing.abort(signal.reason)
    signal.addEventListener('abort', end, { once: true })
    this.#open.add(closing)
    try {
      yield* follow(closing.signal)
    } catch (error) {
      if (closing.signal.aborted) return
      throw error
    } finally {
      signal.removeEventListener('abort', end)
      this.#open.delete(closing)
    }
  }

  close(): void {
    for (const watch of this.#open) watch.abort()
  }
}
