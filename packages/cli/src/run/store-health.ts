import { isAnswer } from '@tenure/internal/store-answers'
import type { CallReport } from 'tenure'
import { formatDuration } from '../shared/arguments/durations.ts'
import { setTimer } from '../shared/clock.ts'

interface StoreHealthOptions {
  readonly timeoutMs: number
  /** Whether a lease runs, as far as is known: then nobody else needs to write. */
  isHeld(): boolean
  /** Looks into the store. Rejects if that is not possible. */
  look(): Promise<unknown>
  /** The store cannot be used. Called at most once, with what to say about it. */
  onUnusable(text: string): void
}

/**
 * Decides when a store counts as one that cannot be used. What counts as an answer of it: {@link isAnswer}.
 *
 * - `unknown`: it has not answered yet, and the time runs from the start.
 * - `usable`: it has answered.
 * - `away`: a write has failed, and it cannot be read either. It was usable before, so the wait for it has no limit.
 * - `read-only`: a write has failed, and it can be read. It is there, so the time runs.
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

  /** Whether it could be used before, so that waiting may help. */
  get hasAnswered(): boolean {
    return this.#state !== 'unknown'
  }

  /** Takes note of a call that is over. `trouble` says why it failed, if it did. */
  note({ verb, result }: Pick<CallReport, 'verb' | 'result'>, trouble: string | undefined): void {
    const isWrite = verb !== 'read'
    if (result !== 'failed') {
      const known = { hasWriteFailed: this.#writeTrouble !== undefined, isHeld: this.#options.isHeld() }
      if (isAnswer({ isWrite, isOk: result === 'ok' }, known)) this.#works()
    } else if (isWrite) {
      this.#writeTrouble = trouble ?? 'A write got no answer.'
      if (this.#state === 'usable') this.#state = 'away'
      void this.#look()
    }
  }

  close(): void {
    this.#isClosed = true
    this.#cancel()
  }

  #works(): void {
    this.#state = 'usable'
    this.#writeTrouble = undefined
    this.#cancel()
  }

  /** After each failed write: an elector that has a lease to release first does not read before it has done so. */
  async #look(): Promise<void> {
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
    this.#cancel = setTimer(this.#options.timeoutMs, () => this.#judge())
  }

  #judge(): void {
    // A watch may have shown a lease that no call has; and a leader ends with its lease, not before.
    if (this.#options.isHeld()) return this.#works()
    const time = formatDuration(this.#options.timeoutMs)
    const text = this.#isReadable
      ? `The store can be read, but nothing could be written to it for ${time}.`
      : `The store has never answered for ${time}.`
    this.#options.onUnusable(`${text} ${this.#writeTrouble ?? 'No call has come back.'}`)
  }
}
