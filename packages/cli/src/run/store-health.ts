import { isAnswer } from '@tenure/internal/store-answers'
import type { CallReport } from 'tenure'
import { formatDuration } from '../shared/arguments/durations.ts'
import { setTimer } from '../shared/clock.ts'

interface StoreHealthOptions {
  readonly timeoutMs: number
  /** Whether another candidate is known to hold a lease. If so, this one does not need to write. */
  isHeld(): boolean
  /** Reads from the store. Rejects if that fails. */
  look(): Promise<unknown>
  /** Called at most once, with the message, when the store counts as unusable. */
  onUnusable(text: string): void
}

/**
 * Decides when a store counts as unusable. {@link isAnswer} defines what counts as an answer.
 *
 * - `unknown`: the store has not answered yet. The timeout runs from the start.
 * - `usable`: the store has answered.
 * - `away`: a write has failed, and reads also fail. The store was usable before, so there is no timeout.
 * - `read-only`: a write has failed, but reads succeed. The store is reachable, so the timeout runs.
 */
export class StoreHealth {
  readonly #options: StoreHealthOptions
  #state: 'unknown' | 'usable' | 'away' | 'read-only' = 'unknown'
  #writeTrouble: string | undefined
  #isReadable = false
  #isLooking = false
  #isClosed = false
  #cancel: () => void = () => {}

  constructor(options: StoreHealthOptions) {
    this.#options = options
    this.#arm()
  }

  /** Whether the store has ever been usable, so that waiting may help. */
  get hasAnswered(): boolean {
    return this.#state !== 'unknown'
  }

  /** Records a finished call. `trouble` is the reason if the call failed. */
  note({ verb, result }: Pick<CallReport, 'verb' | 'result'>, trouble: string | undefined): void {
    const isWrite = verb !== 'read'
    if (result !== 'failed') {
      const known = { hasWriteFailed: this.#writeTrouble !== undefined, isHeld: this.#options.isHeld() }
      if (isAnswer({ isWrite, isOk: result === 'ok' }, known)) this.#markUsable()
    } else if (isWrite) {
      this.#writeTrouble = trouble ?? 'A write got no answer.'
      if (this.#state === 'usable') this.#state = 'away'
      void this.#probe()
    }
  }

  close(): void {
    this.#isClosed = true
    this.#cancel()
  }

  #markUsable(): void {
    this.#state = 'usable'
    this.#writeTrouble = undefined
    this.#cancel()
  }

  /**
   * Checks after each failed write whether the store can be read. The elector itself does not read while it still has a
   * lease to release.
   */
  async #probe(): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    this.#isReadable = await this.#options.look().then(
      () => true,
      () => false,
    )
    this.#isLooking = false
    if (this.#isClosed) return
    if (this.#state === 'away' && this.#isReadable) {
      this.#state = 'read-only'
      this.#arm()
    } else if (this.#state === 'read-only' && !this.#isReadable) {
      this.#state = 'away'
      this.#cancel()
    }
  }

  #arm(): void {
    this.#cancel = setTimer(this.#options.timeoutMs, () => this.#onTimeout())
  }

  #onTimeout(): void {
    // A watch may have shown a lease that no call has returned. A leader is not ended here, because it ends with its
    // lease.
    if (this.#options.isHeld()) return this.#markUsable()
    const time = formatDuration(this.#options.timeoutMs)
    const text = this.#isReadable
      ? `The store can be read, but no write has succeeded for ${time}.`
      : `The store has not answered within ${time}.`
    this.#options.onUnusable(`${text} ${this.#writeTrouble ?? 'No call has returned.'}`)
  }
}
