import { within } from '@tenure/internal/bound'
import type { Clock } from 'tenure'
import type { Groups } from '../groups/port.ts'

const freshMs = 1_000
/** How long a metrics request waits for the store. */
const checkTimeoutMs = 2_000

type Checked = Pick<Groups, 'check'>

/**
 * Whether the service works. Anyone may ask, and each check writes to the disk, so there is at most one check per
 * second.
 */
export class Readiness {
  readonly #checked: Checked
  readonly #clock: Clock
  #last: { atMs: number; isDone: boolean; result: Promise<void> } | undefined

  constructor(checked: Checked, clock: Clock) {
    this.#checked = checked
    this.#clock = clock
  }

  /** Rejects while the store cannot write durably. */
  check(): Promise<void> {
    const nowMs = this.#clock.monotonicMs()
    if (this.#last && (!this.#last.isDone || nowMs - this.#last.atMs < freshMs)) return this.#last.result
    const look = { atMs: nowMs, isDone: false, result: this.#checked.check() }
    const settle = () => void (look.isDone = true)
    look.result.then(settle, settle)
    this.#last = look
    return look.result
  }

  /** Resolves to whether the check succeeds in time. A store that does not answer is not healthy. */
  isHealthy(): Promise<boolean> {
    const late = () => new Error('The check has not succeeded in time.')
    const deadline = { clock: this.#clock, timeoutMs: checkTimeoutMs, late, background: true }
    return within(undefined, deadline, this.check()).then(
      () => true,
      () => false,
    )
  }
}
