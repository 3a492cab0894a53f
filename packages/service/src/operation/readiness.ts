import type { Clock } from 'tenure'
import type { Groups } from '../groups/groups.ts'

const freshMs = 1_000
/** How long a metrics request waits for the store. */
const patienceMs = 2_000

type Checked = Pick<Groups, 'check'>

/**
 * Whether the service can work. Anyone may ask, and each check is a write to the disk, so there is at most one per
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

  /** Resolves to whether the check succeeds in time: a store that does not answer is not healthy either. */
  isHealthy(): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = this.#clock.setTimer(patienceMs, () => resolve(false), { background: true })
      const answer = (isHealthy: boolean) => () => {
        timer.cancel()
        resolve(isHealthy)
      }
      this.check().then(answer(true), answer(false))
    })
  }
}
