import type { Clock, Timer } from '../common/clock.ts'
import type { Leadership } from '../engine/leadership.ts'
import type { OwnershipReport } from './assignment.ts'
import { encodeReport } from './codec.ts'

/**
 * Writes the reports of a member into the checkpoint of its seat, one at a time and always the newest. A report that
 * nobody waits for is delayed, so that reports cost at most one more write per renew interval.
 */
export class ReportWriter {
  readonly #clock: Clock
  readonly #intervalMs: number
  readonly #onWritten: (report: OwnershipReport) => void
  #next: { readonly leadership: Leadership; readonly report: OwnershipReport; readonly isUrgent: boolean } | undefined
  #timer: Timer | undefined
  #isWriting = false
  #wroteAtMs = -Infinity

  constructor(clock: Clock, intervalMs: number, onWritten: (report: OwnershipReport) => void) {
    this.#clock = clock
    this.#intervalMs = intervalMs
    this.#onWritten = onWritten
  }

  write(leadership: Leadership, report: OwnershipReport, isUrgent: boolean): void {
    // A report that somebody waits for stays urgent when a newer one replaces it.
    const wasUrgent = this.#next?.leadership === leadership && this.#next.isUrgent
    this.#next = { leadership, report, isUrgent: isUrgent || wasUrgent }
    this.#proceed()
  }

  #proceed(): void {
    const next = this.#next
    this.#timer?.cancel()
    if (!next || this.#isWriting) return
    const nowMs = this.#clock.monotonicMs()
    const waitMs = next.isUrgent ? 0 : this.#wroteAtMs + this.#intervalMs - nowMs
    if (waitMs > 0) {
      this.#timer = this.#clock.setTimer(waitMs, () => this.#proceed())
      return
    }
    const { leadership, report } = next
    this.#next = undefined
    this.#isWriting = true
    this.#wroteAtMs = nowMs
    void leadership
      .setCheckpoint(encodeReport(report))
      .then(() => this.#onWritten(report))
      // A rejection means that the seat is lost. The next member of this process writes its own report.
      .catch(() => undefined)
      .finally(() => {
        this.#isWriting = false
        this.#proceed()
      })
  }
}
