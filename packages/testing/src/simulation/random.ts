/** A seeded random number generator. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed | 0
    // Adjacent seeds start with similar numbers, so the first few numbers are discarded.
    for (let draw = 0; draw < 8; draw += 1) this.next()
  }

  /** Returns a number of at least 0 and below 1. */
  next(): number {
    this.#state = (this.#state + 0x9e3779b9) | 0
    let mixed = this.#state ^ (this.#state >>> 16)
    mixed = Math.imul(mixed, 0x21f0aaad)
    mixed ^= mixed >>> 15
    mixed = Math.imul(mixed, 0x735a2d97)
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32
  }

  between(low: number, high: number): number {
    return low + this.next() * (high - low)
  }

  /**
   * Returns a number that is spread evenly over orders of magnitude, so that small numbers are as likely as large ones.
   */
  magnitude(low: number, high: number): number {
    return low * (high / low) ** this.next()
  }

  /** Returns an exponentially distributed waiting time with the given mean. */
  waiting(mean: number): number {
    return -Math.log(1 - this.next()) * mean
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new RangeError('Cannot pick from an empty list.')
    return items[Math.floor(this.next() * items.length)] as T
  }

  shuffle<T>(items: readonly T[]): T[] {
    return items
      .map((item) => ({ item, key: this.next() }))
      .toSorted((a, b) => a.key - b.key)
      .map(({ item }) => item)
  }

  fork(): Random {
    return new Random(Math.floor(this.next() * 2 ** 32))
  }
}
