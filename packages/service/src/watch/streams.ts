import type { Clock, Timer } from 'tenure'
import type { Identity } from '../auth/access.ts'

/** An answer that takes long. */
export interface Endless {
  /** Whose it is. */
  readonly identity: Identity
  /** The service stops, or rights were read again; otherwise, why. */
  end(reason?: string): void
  /** About once a second. */
  tick?(): void
}

const tickMs = 1_000

/** All answers that take long: they share one timer, and a service that stops can end them. */
export class Streams {
  readonly #clock: Clock
  readonly #all = new Set<Endless>()
  #timer: Timer | undefined
  #stopped = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Returns what removes it again. After `endAll` it is ended at once. */
  add(endless: Endless): () => void {
    if (this.#stopped) {
      endless.end()
      return () => {}
    }
    this.#all.add(endless)
    this.#timer ??= this.#arm()
    return () => void this.#all.delete(endless)
  }

  /** The service stops: those that are added later are ended at once too. */
  endAll(): void {
    this.#stopped = true
    this.#timer?.cancel()
    this.endPresent()
  }

  /** Only the present ones: a client that comes back is judged by the rights of then. */
  endPresent(): void {
    for (const endless of this.#all) endless.end()
  }

  /** Those of callers that may not go on. */
  endOf(isOver: (identity: Identity) => boolean, reason: string): void {
    for (const endless of this.#all) if (isOver(endless.identity)) endless.end(reason)
  }

  #arm(): Timer {
    return this.#clock.setTimer(tickMs, () => this.#tick(), { background: true })
  }

  #tick(): void {
    for (const endless of this.#all) endless.tick?.()
    this.#timer = this.#all.size > 0 && !this.#stopped ? this.#arm() : undefined
  }
}
