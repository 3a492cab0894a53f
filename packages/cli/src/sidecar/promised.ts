import type { Leadership } from 'tenure'
import { now, setTimer } from '../shared/clock.ts'

/**
 * What was promised to callers: that this one leads, and for how long. The lease is not released before that time has
 * passed, because a program that got such an answer may rely on it without asking again.
 */
export class Promised {
  #untilMs = -Infinity
  #isOver = false

  /** False as soon as this one is to stop. */
  get mayPromise(): boolean {
    return !this.#isOver
  }

  note(remainingMs: number): void {
    this.#untilMs = Math.max(this.#untilMs, now().machineMs + remainingMs)
  }

  /** Nothing more is promised. */
  end(): void {
    this.#isOver = true
  }

  /** Keeps a lease from being released before what was promised has run out. */
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
