import type { Clock, Timer } from 'tenure'
import type { Identity } from '../../auth/access.ts'

/** A response that stays open for a long time. */
export interface OpenResponse {
  /** The caller. */
  readonly identity: Identity
  /** Called when the service stops, rights are reloaded, or for the given reason. */
  end(reason?: string): void
  /** Called about once a second. */
  tick?(): void
}

const tickMs = 1_000

/** All long-lived responses. They share one timer, and end when the service stops. */
export class OpenResponses {
  readonly #clock: Clock
  readonly #all = new Set<OpenResponse>()
  #timer: Timer | undefined
  #stopped = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Returns a function that removes the response again. After `endAll` a response ends at once. */
  add(endless: OpenResponse): () => void {
    if (this.#stopped) {
      endless.end()
      return () => {}
    }
    this.#all.add(endless)
    this.#timer ??= this.#arm()
    return () => void this.#all.delete(endless)
  }

  /** Called when the service stops. Responses that are added later also end at once. */
  endAll(): void {
    this.#stopped = true
    this.#timer?.cancel()
    this.endPresent()
  }

  /** Ends only the current responses. A client that reconnects is checked against its current rights. */
  endPresent(): void {
    for (const endless of this.#all) endless.end()
  }

  /** Ends the responses of callers that may not continue. */
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
