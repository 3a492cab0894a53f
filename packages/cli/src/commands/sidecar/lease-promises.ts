import type { Leadership } from 'tenure'
import { now, setTimer } from '../../shared/clock.ts'

/**
 * Tracks the promises made to callers: that this candidate leads, and for how long. The lease is not released before
 * that time has passed, because a program may rely on such an answer without asking again.
 */
export class LeasePromises {
  #untilMs = -Infinity
  #isOver = false

  /** False once this sidecar is stopping. */
  get mayPromise(): boolean {
    return !this.#isOver
  }

  note(remainingMs: number): void {
    this.#untilMs = Math.max(this.#untilMs, now().machineMs + remainingMs)
  }

  /** Stops making promises: from now on, no answer says that this candidate leads. */
  end(): void {
    this.#isOver = true
  }

  /** Keeps a lease from being released before the promises have expired. */
  cover(leadership: Leadership): void {
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
