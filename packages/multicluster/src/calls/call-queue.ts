/** Limits how many tasks run at once. Urgent tasks go first, but never starve the others. */
export class Queue {
  readonly #limit: number
  readonly #urgent: (() => void)[] = []
  readonly #others: (() => void)[] = []
  #running = 0
  #urgentInARow = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  get running(): number {
    return this.#running
  }

  get waiting(): number {
    return this.#urgent.length + this.#others.length
  }

  /**
   * Runs a task when it is its turn, at once if nothing waits. `hasWaited` is whether time has passed since the call.
   * Rejects without running the task if the signal aborts first.
   */
  async run<T>(isUrgent: boolean, signal: AbortSignal, work: (hasWaited: boolean) => Promise<T>): Promise<T> {
    if (signal.aborted) throw signal.reason
    const hasWaited = this.#running >= this.#limit || this.waiting > 0
    if (hasWaited) await this.#turn(isUrgent, signal)
    else this.#begin(isUrgent)
    try {
      return await work(hasWaited)
    } finally {
      this.#running -= 1
      this.#next()
    }
  }

  #turn(isUrgent: boolean, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const line = isUrgent ? this.#urgent : this.#others
      const begin = () => {
        signal.removeEventListener('abort', onAbort)
        this.#begin(isUrgent)
        resolve()
      }
      const onAbort = () => {
        const place = line.indexOf(begin)
        if (place !== -1) line.splice(place, 1)
        reject(signal.reason)
      }
      signal.addEventListener('abort', onAbort, { once: true })
      line.push(begin)
      this.#next()
    })
  }

  #next(): void {
    while (this.#running < this.#limit) {
      const isOthersTurn = this.#urgent.length === 0 || (this.#urgentInARow >= urgentAtMost && this.#others.length > 0)
      const begin = isOthersTurn ? this.#others.shift() : this.#urgent.shift()
      if (!begin) return
      begin()
    }
  }

  #begin(isUrgent: boolean): void {
    this.#running += 1
    this.#urgentInARow = isUrgent ? this.#urgentInARow + 1 : 0
  }
}

/** After this many urgent tasks in a row, one of the others gets a turn. */
const urgentAtMost = 4
