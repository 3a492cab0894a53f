/** An event loop whose turns and time are counted. */
export class Loop {
  ms = 0
  #later: (() => void)[] = []
  readonly nowMs = () => this.ms
  readonly later = (callback: () => void) => void this.#later.push(callback)

  get isIdle(): boolean {
    return this.#later.length === 0
  }

  /** Runs the callbacks that were queued when the turn began. Returns how long they took. */
  turn(): number {
    const beganMs = this.ms
    for (const callback of this.#later.splice(0)) callback()
    return this.ms - beganMs
  }

  /** Returns work that takes this long. */
  work(ms: number, done: () => void = () => {}): () => void {
    return () => {
      this.ms += ms
      done()
    }
  }
}
