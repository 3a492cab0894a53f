/**
 * Items that wait for a reader. With `all`, the reader gets every item in order. With `latest`, a new item replaces an
 * unread one, so a slow reader skips items and the queue never grows.
 */
export class AsyncQueue<T> {
  readonly #keep: 'all' | 'latest'
  readonly #items: T[] = []
  readonly #waiting = new Set<() => void>()
  #isEnded = false

  constructor(keep: 'all' | 'latest', ...items: readonly T[]) {
    this.#keep = keep
    this.#items.push(...items)
  }

  get size(): number {
    return this.#items.length
  }

  /** The item that would be read last. */
  get newest(): T | undefined {
    return this.#items.at(-1)
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  /** Does nothing after the end. */
  put(item: T): void {
    if (this.#isEnded) return
    if (this.#keep === 'latest') this.clear()
    this.#items.push(item)
    this.#wake()
  }

  /** Adds an item even after the end, so that a reader that is still reading gets it. */
  putLast(item: T): void {
    this.#items.push(item)
  }

  dropNewest(): void {
    this.#items.pop()
  }

  clear(): void {
    this.#items.length = 0
  }

  /** Marks the end: no more items will be put. Items that are still waiting can be taken. */
  end(): void {
    this.#isEnded = true
    this.#wake()
  }

  /** Removes the next item. Undefined if there is none, so test {@link size} first if items may be undefined. */
  take(): T | undefined {
    return this.#items.shift()
  }

  /** Resolves as soon as there is an item or the end has been reached, possibly at once. */
  ready(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#isReady) resolve()
      else this.#waiting.add(resolve)
    })
  }

  /** Like {@link ready}, but resolves after at most `silenceMs`. */
  readyWithin(clock: QueueTimers, silenceMs: number, options?: { readonly background?: boolean }): Promise<void> {
    if (this.#isReady) return Promise.resolve()
    return new Promise((resolve) => {
      const done = () => {
        timer.cancel()
        this.#waiting.delete(done)
        resolve()
      }
      const timer = clock.setTimer(silenceMs, done, options)
      this.#waiting.add(done)
    })
  }

  get #isReady(): boolean {
    return this.#items.length > 0 || this.#isEnded
  }

  #wake(): void {
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const resolve of waiting) resolve()
  }
}

/** The part of a clock that a queue needs. */
interface QueueTimers {
  setTimer(delayMs: number, callback: () => void, options?: { background?: boolean | undefined }): { cancel(): void }
}
