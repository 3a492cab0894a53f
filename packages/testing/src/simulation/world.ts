/** An event that is scheduled for later. */
export interface Scheduled {
  readonly atMs: number
  readonly order: number
  run: (() => void) | undefined
}

/** True time, which no simulated machine can see, and all events scheduled in it. */
export class World {
  nowMs = 0
  #order = 0
  readonly #heap: Scheduled[] = []

  at(atMs: number, run: () => void): Scheduled {
    const scheduled: Scheduled = { atMs: Math.max(atMs, this.nowMs), order: this.#order++, run }
    this.#push(scheduled)
    return scheduled
  }

  after(delayMs: number, run: () => void): Scheduled {
    return this.at(this.nowMs + delayMs, run)
  }

  /**
   * Runs all events up to a moment. After each event and everything it triggers, `inspect` decides whether to continue.
   */
  async runUntil(endMs: number, inspect: () => boolean): Promise<void> {
    for (let next = this.#heap[0]; next && next.atMs <= endMs; next = this.#heap[0]) {
      this.#pop()
      if (!next.run) continue
      this.nowMs = next.atMs
      next.run()
      await new Promise((resolve) => setImmediate(resolve))
      if (!inspect()) return
    }
    this.nowMs = endMs
  }

  #push(item: Scheduled): void {
    const heap = this.#heap
    let index = heap.push(item) - 1
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (!before(item, heap[parent])) break
      heap[index] = heap[parent] as Scheduled
      index = parent
    }
    heap[index] = item
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()
    if (!last || heap.length === 0) return
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      if (child + 1 < heap.length && before(heap[child + 1], heap[child])) child += 1
      if (child >= heap.length || !before(heap[child], last)) break
      heap[index] = heap[child] as Scheduled
      index = child
    }
    heap[index] = last
  }
}

function before(a: Scheduled | undefined, b: Scheduled | undefined): boolean {
  if (!a || !b) return false
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order)
}
