import type { Clock, Timer } from 'tenure'
import type { GroupLease } from './in-memory-group.ts'

/** Renewals of one group are reported at most this often. */
const everyMs = 1_000
/** How many leases are checked before other callbacks may run. */
const perLook = 512

interface Reported {
  readonly atMs: number
  /** Whether the lease was renewed again since the last report. */
  isOutdated: boolean
}

/**
 * Reports renewals, at most once a second for each lease. A lease that was renewed more often is reported again at the
 * end of the second, with its state at that time. So listeners know the newest state within a second.
 */
export class RenewalEvents {
  readonly #clock: Clock
  readonly #report: (lease: GroupLease) => void
  /** Reports of the last second, oldest first. */
  readonly #reported = new Map<GroupLease, Reported>()
  #timer: Timer | undefined

  constructor(clock: Clock, report: (lease: GroupLease) => void) {
    this.#clock = clock
    this.#report = report
  }

  /** Records that a lease was renewed. */
  note(lease: GroupLease): void {
    const reported = this.#reported.get(lease)
    if (reported) reported.isOutdated = true
    else this.#tell(lease)
  }

  stop(): void {
    this.#timer?.cancel()
    this.#reported.clear()
  }

  #tell(lease: GroupLease): void {
    this.#reported.set(lease, { atMs: this.#clock.monotonicMs(), isOutdated: false })
    this.#arm(everyMs)
    this.#report(lease)
  }

  #arm(delayMs: number): void {
    this.#timer ??= this.#clock.setTimer(delayMs, () => this.#look(), { background: true })
  }

  #look(): void {
    this.#timer = undefined
    const untilMs = this.#clock.monotonicMs() - everyMs
    let looked = 0
    for (const [lease, { atMs, isOutdated }] of this.#reported) {
      if (atMs > untilMs) return this.#arm(atMs - untilMs)
      if (looked === perLook) return this.#arm(0)
      looked += 1
      this.#reported.delete(lease)
      // The end of a lease is reported separately.
      if (isOutdated && !lease.ended) this.#tell(lease)
    }
  }
}
