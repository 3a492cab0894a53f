/**
 * The maximum number of concurrent calls of one store for one election. Further calls wait, because a resource has few
 * slots.
 */
const maxSlots = 8

/**
 * The slots of one store in one resource. Each call takes the lowest free slot. So concurrent calls do not overwrite
 * each other, and consecutive calls leave only one request behind.
 */
export class Slots {
  readonly #taken = new Set<number>()
  readonly #queue: (() => void)[] = []

  get isEmpty(): boolean {
    return this.#taken.size === 0 && this.#queue.length === 0
  }

  /** Takes the lowest free slot, and waits if there is none. Returns undefined if the signal aborts first. */
  async take(signal: AbortSignal): Promise<number | undefined> {
    while (this.#taken.size >= maxSlots && !signal.aborted) await this.#turn(signal)
    if (signal.aborted) {
      // This call may have been woken for a slot that it does not take. If so, wake the next one.
      if (this.#taken.size < maxSlots) this.#queue.shift()?.()
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
