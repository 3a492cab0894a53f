/** What can run out. `expiresAtMs` may move later at any time; earlier only after `remove`-by-ending. */
export interface Expiring {
  readonly expiresAtMs: number
  readonly ended: boolean
}

interface Slot<T> {
  readonly atMs: number
  readonly item: T
}

/**
 * Leases by the moment at which they run out: a heap. A renewal does not touch it. The old place is looked at when its
 * time comes, and the lease put where it belongs by then; so renewals cost nothing here, and the rest O(log n).
 */
export class ExpiryQueue<T extends Expiring> {
  readonly #heap: Slot<T>[] = []

  get size(): number {
    return this.#heap.length
  }

  add(item: T): void {
    this.#push({ atMs: item.expiresAtMs, item })
  }

  /** When to look again; undefined if nothing can run out. */
  nextMs(): number | undefined {
    return this.#heap[0]?.atMs
  }

  /** Takes the next item that has run out. */
  take(nowMs: number): T | undefined {
    for (;;) {
      const first = this.#heap[0]
      if (!first || first.atMs > nowMs) return undefined
      this.#pop()
      if (first.item.ended) continue
      if (first.item.expiresAtMs <= nowMs) return first.item
      this.add(first.item)
    }
  }

  #push(slot: Slot<T>): void {
    const heap = this.#heap
    let index = heap.push(slot) - 1
    while (index > 0) {
      const above = (index - 1) >> 1
      const parent = heap[above]
      if (!parent || parent.atMs <= slot.atMs) break
      heap[index] = parent
      index = above
    }
    heap[index] = slot
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()
    if (!last || heap.length === 0) return
    let index = 0
    for (;;) {
      let below = 2 * index + 1
      const left = heap[below]
      if (!left) break
      const right = heap[below + 1]
      let child = left
      if (right && right.atMs < left.atMs) {
        below += 1
        child = right
      }
      if (child.atMs >= last.atMs) break
      heap[index] = child
      index = below
    }
    heap[index] = last
  }
}
