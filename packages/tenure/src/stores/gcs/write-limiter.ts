import type { Clock } from '../../common/clock.ts'
import { TenureError } from '../../common/errors.ts'

const mostRemembered = 10_000

/** Spaces out the writes of each object. */
export class WriteLimiter {
  readonly #clock: Clock
  readonly #intervalMs: number
  readonly #nextMs = new Map<string, number>()

  constructor(clock: Clock, intervalMs: number) {
    this.#clock = clock
    this.#intervalMs = intervalMs
  }

  /**
   * Waits until the object may be written again, but no longer than the call's remaining time. Returns a function to
   * call if nothing was written after all.
   */
  async turn(object: string, timeoutMs = Infinity, signal: AbortSignal): Promise<() => void> {
    const nowMs = this.#clock.monotonicMs()
    const before = this.#nextMs.get(object)
    const startMs = Math.max(nowMs, before ?? nowMs)
    const waitMs = startMs - nowMs
    if (waitMs >= timeoutMs) {
      const text = `The object ${object} was just written and cannot be written again for ${Math.ceil(waitMs)} ms, because Google Cloud Storage accepts one write per second and object. Choose a longer lease.`
      throw new TenureError('RATE_LIMITED', text, { retryable: true })
    }
    const nextMs = startMs + this.#intervalMs
    this.#set(object, nextMs)
    const giveBack = () => {
      if (this.#nextMs.get(object) === nextMs) this.#set(object, before ?? nowMs)
    }
    if (waitMs > 0) await this.#wait(waitMs, signal, giveBack)
    return giveBack
  }

  #set(object: string, nextMs: number): void {
    // Moves the object to the end, so that the least recently written object is forgotten first.
    this.#nextMs.delete(object)
    this.#nextMs.set(object, nextMs)
    const [oldest] = this.#nextMs.keys()
    if (this.#nextMs.size > mostRemembered && oldest !== undefined) this.#nextMs.delete(oldest)
  }

  #wait(ms: number, signal: AbortSignal, giveBack: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        timer.cancel()
        giveBack()
        reject(signal.reason instanceof Error ? signal.reason : new Error(String(signal.reason)))
      }
      const timer = this.#clock.setTimer(ms, () => {
        signal.removeEventListener('abort', onAbort)
        resolve()
      })
      if (signal.aborted) onAbort()
      else signal.addEventListener('abort', onAbort, { once: true })
    })
  }
}
