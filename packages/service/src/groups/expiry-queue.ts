/** An item that can expire. `expiresAtMs` may move later at any time, but never earlier. */
export interface Expiring {
  readonly expiresAtMs: number
  readonly ended: boolean
}

/**
 * Leases ordered by expiry, in a heap. A renewal does not touch the heap. When the old expiry time is reached, the
 * lease is moved to its current position. So renewals cost nothing here, and every other operation costs O(log n).
 */
export class ExpiryQueue<T extends Expiring> {
  // These are two parallel lists, because a million small objects would take three times the memory.
  readonly #times: number[] = []
  readonly #items: T[] = []
  #endedEarly = 0

  add(item: T): void {
    const times = this.#times
    const atMs = item.expiresAtMs
    let index = times.push(atMs) - 1
    this.#items.push(item)
    while (index > 0) {
      const above = (index - 1) >> 1
      if (this.#timeAt(above) <= atMs) break
      this.#move(above, index)
      index = above
    }
    this.#put(index, atMs, item)
  }

  get size(): number {
    return this.#items.length
  }

  /** Delays every expiry by this much. The order stays the same. */
  delay(ms: number): void {
    for (let index = 0; index < this.#times.length; index++) this.#times[index] = this.#timeAt(index) + ms
  }

  /** Counts an item that ended before it expired. Once there are many, their entries are removed from the heap. */
  endedEarly(): void {
    this.#endedEarly += 1
    if (this.#endedEarly < 1_000 || this.#endedEarly < this.#items.length / 2) return
    this.#endedEarly = 0
    const live = this.#items.filter(({ ended }) => !ended)
    this.#items.length = 0
    this.#times.length = 0
    for (const item of live) this.add(item)
  }

  /** Returns when to check again, or undefined if the queue is empty. */
  nextMs(): number | undefined {
    return this.#times[0]
  }

  /** Takes the next expired item, if there is one. */
  take(nowMs: number): T | undefined {
    for (;;) {
      const first = this.#items[0]
      if (!first || this.#timeAt(0) > nowMs) return undefined
      this.#pop()
      if (first.ended) continue
      if (first.expiresAtMs <= nowMs) return first
      this.add(first)
    }
  }

  #pop(): void {
    const atMs = this.#times.pop()
    const item = this.#items.pop()
    if (atMs === undefined || item === undefined || this.#items.length === 0) return
    let index = 0
    for (;;) {
      let below = 2 * index + 1
      if (this.#timeAt(below + 1) < this.#timeAt(below)) below += 1
      if (this.#timeAt(below) >= atMs) break
      this.#move(below, index)
      index = below
    }
    this.#put(index, atMs, item)
  }

  #timeAt(index: number): number {
    return this.#times[index] ?? Infinity
  }

  #move(from: number, to: number): void {
    const item = this.#items[from]
    if (item) this.#put(to, this.#timeAt(from), item)
  }

  #put(index: number, atMs: number, item: T): void {
    this.#times[index] = atMs
    this.#items[index] = item
  }
}
