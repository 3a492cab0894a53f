/** The building blocks of limits: rates, slots, and turns, all by subject. */

const maxBuckets = 10_000

/** Token buckets, one for each recent subject. */
export class TokenBuckets {
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>()
  readonly #perMs: number
  readonly #burst: number

  constructor(perMs: number, burst: number) {
    this.#perMs = perMs
    this.#burst = burst
  }

  get isLimited(): boolean {
    return this.#burst > 0
  }

  get size(): number {
    return this.#buckets.size
  }

  /** Returns how long to wait, or 0 if the tokens were taken. `paid` tokens were just taken for the same request. */
  take(subject: string, weight: number, nowMs: number, paid = 0): number {
    const bucket = this.#bucketOf(subject, nowMs)
    // A weight larger than the bucket is admitted when the bucket is full, and the excess is paid for afterwards.
    const needed = Math.min(weight, this.#burst - paid)
    if (bucket.tokens < needed) return Math.max(1, Math.ceil((needed - bucket.tokens) / this.#perMs))
    bucket.tokens -= weight
    return 0
  }

  /** Takes the tokens even if the bucket has too few. */
  charge(subject: string, weight: number, nowMs: number): void {
    this.#bucketOf(subject, nowMs).tokens -= weight
  }

  #bucketOf(subject: string, nowMs: number): { tokens: number; atMs: number } {
    const bucket = this.#buckets.get(subject) ?? { tokens: this.#burst, atMs: nowMs }
    // The first bucket is the least recently used, so it is the fullest, and dropping it loses the least.
    this.#buckets.delete(subject)
    this.#buckets.set(subject, bucket)
    for (const oldest of this.#buckets.keys()) {
      if (this.#buckets.size <= maxBuckets) break
      this.#buckets.delete(oldest)
    }
    bucket.tokens = Math.min(this.#burst, bucket.tokens + Math.max(0, nowMs - bucket.atMs) * this.#perMs)
    bucket.atMs = nowMs
    return bucket
  }
}

/** Slots that are taken and released. Subjects without a slot are not remembered. */
export class SubjectSlots {
  readonly #held = new Map<string, number>()
  readonly #maxEach: number
  readonly #most: number
  #all = 0

  constructor(maxEach: number, most: number) {
    this.#maxEach = maxEach === 0 ? Infinity : maxEach
    this.#most = most
  }

  get size(): number {
    return this.#held.size
  }

  get taken(): number {
    return this.#all
  }

  /**
   * Returns a function that releases the slots, which must be called once, or undefined if no slot is free. A subject
   * with at least one free slot gets its whole weight, even beyond the limit.
   */
  enter(subject: string, weight = 1): (() => void) | undefined {
    const held = this.#held.get(subject) ?? 0
    if (held >= this.#maxEach || this.#all >= this.#most) return undefined
    this.#held.set(subject, held + weight)
    this.#all += weight
    return () => {
      this.#all -= weight
      const others = (this.#held.get(subject) ?? weight) - weight
      if (others === 0) this.#held.delete(subject)
      else this.#held.set(subject, others)
    }
  }
}

interface WaitingTurn {
  readonly subject: string
  begin(): void
}

/**
 * Turns for requests that take milliseconds to parse. Each subject has one turn at a time, in order of arrival. Only
 * one turn begins per iteration of the event loop, so that small requests are answered in between.
 */
export class Turns {
  readonly #busy = new Set<string>()
  readonly #waiting: WaitingTurn[] = []
  #scheduled = false

  /** Returns a function that ends the turn, even before it has begun. */
  take(subject: string, begin: () => void): () => void {
    let state: 'waiting' | 'begun' | 'over' = 'waiting'
    const turn = {
      subject,
      begin: () => {
        state = 'begun'
        begin()
      },
    }
    this.#waiting.push(turn)
    this.#schedule()
    return () => {
      if (state === 'waiting') this.#waiting.splice(this.#waiting.indexOf(turn), 1)
      if (state === 'begun') this.#busy.delete(subject)
      state = 'over'
      this.#schedule()
    }
  }

  #next(): number {
    return this.#waiting.findIndex(({ subject }) => !this.#busy.has(subject))
  }

  #schedule(): void {
    if (this.#scheduled || this.#next() < 0) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      const next = this.#next()
      const [turn] = next < 0 ? [] : this.#waiting.splice(next, 1)
      if (!turn) return
      this.#busy.add(turn.subject)
      turn.begin()
      this.#schedule()
    })
  }
}
