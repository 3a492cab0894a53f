import type { Leadership } from 'tenure'
import { now, setTimer } from '../clock.ts'

/**
 * What was told to whoever asked: that this one leads, and for how long. The lease is not given back before that has
 * run out, because the program that was told so may go by it without asking again.
 */
export class Promised {
  #untilMs = -Infinity
  #isOver = false

  /** False as soon as this one is to stop. */
  get mayTell(): boolean {
    return !this.#isOver
  }

  told(remainingMs: number): void {
    this.#untilMs = Math.max(this.#untilMs, now().machineMs + remainingMs)
  }

  /** Nothing is told any more. */
  end(): void {
    this.#isOver = true
  }

  /** Keeps a lease from being given back before what was told has run out. */
  coverUntilTold(leadership: Leadership): void {
    leadership.waitUntil(
      new Promise((resolve) => {
        const wait = () => {
          const leftMs = this.#untilMs - now().machineMs
          if (leftMs > 0) setTimer(leftMs, wait)
          else resolve(undefined)
        }
        leadership.signal.addEventListener('abort', wait, { once: true })
        if (leadership.signal.aborted) wait()
      }),
    )
  }
}
