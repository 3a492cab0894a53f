/** What can run out. `expiresAtMs` may move later at any time, and never earlier. */
export interface Expiring {
  readonly expiresAtMs: number
  readonly ended: boolean
}

/**
 * Leases by the moment at which they run out: a heap. A renewal does not touch it. The old place is looked at when its
 * time comes, and the lease put where it belongs by then; so renewals cost nothing here, and the rest O(log n).
 */
export class ExpiryQueue<T extends Expiring> {
  // Two lists of one order: a million small objects would take three times the memory.
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

  /** All run out later by so much. Their order stays. */
  delay(ms: number): void {
    for (let index = 0; index < this.#times.length; index++) this.#times[index] = this.#timeAt(index) + ms
  }

  /** One of them has ended before its time: when they are many, their places are cleared, lest they pile up. */
  endedEarly(): void {
    this.#endedEarly += 1
    if (this.#endedEarly < 1_000 || this.#endedEarly < this.#items.length / 2) return
    this.#endedEarly = 0
    const live = this.#items.filter(({ ended }) => !ended)
    this.#items.length = 0
    this.#times.length = 0
    for (const item of live) this.add(item)
  }

  /** When to look again; undefined if nothing can run out. */
  nextMs(): number | undefined {
    return this.#times[0]
  }

  /** Takes the next item that has run out. */
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
