/** The open watches of a store. Each ends with its reader's signal, and all of them end when the store is closed. */
export class OpenWatches {
  readonly #open = new Set<AbortController>()

  /** Yields what `follow` yields until the signal aborts or the store is closed. Errors caused by that are dropped. */
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
