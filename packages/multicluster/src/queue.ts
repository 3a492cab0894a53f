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

  /** Runs a task when it is its turn. Rejects without running it if the signal aborts first. */
  async run<T>(isUrgent: boolean, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#turn(isUrgent, signal)
    try {
      return await work()
    } finally {
      this.#running -= 1
      this.#next()
    }
  }

  #turn(isUrgent: boolean, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const line = isUrgent ? this.#urgent : this.#others
      const begin = () => {
        signal.removeEventListener('abort', onAbort)
        this.#running += 1
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
      this.#urgentInARow = isOthersTurn ? 0 : this.#urgentInARow + 1
      begin()
    }
  }
}

/** After this many urgent tasks in a row, one of the others gets a turn. */
const urgentAtMost = 4
