/** More calls of one store for one election than these wait for each other: a resource has few places. */
const mostLanes = 8

/**
 * The places that one store has in one resource. A call takes the lowest free one for itself, so that calls at the same
 * time do not replace each other, and calls one after another leave one request behind and not many.
 */
export class Lanes {
  readonly #taken = new Set<number>()
  readonly #queue: (() => void)[] = []

  get isEmpty(): boolean {
    return this.#taken.size === 0 && this.#queue.length === 0
  }

  /** Undefined if the signal aborted first. */
  async take(signal: AbortSignal): Promise<number | undefined> {
    while (this.#taken.size >= mostLanes && !signal.aborted) await this.#turn(signal)
    if (signal.aborted) {
      // It may have been woken for a place that it does not take.
      if (this.#taken.size < mostLanes) this.#queue.shift()?.()
      return undefined
    }
    let lane = 0
    while (this.#taken.has(lane)) lane++
    this.#taken.add(lane)
    return lane
  }

  free(lane: number): void {
    this.#taken.delete(lane)
    this.#queue.shift()?.()
  }

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      const leave = () => {
        this.#queue.splice(this.#queue.indexOf(wake), 1)
        resolve()
      }
      this.#queue.push(wake)
      signal.addEventListener('abort', leave, { once: true })
    })
  }
}
