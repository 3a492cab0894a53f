import { systemClock } from '@tenure/internal/clock'
import type { FairQueue, Lane } from '../common/fair-queue.ts'

/** How long one slice of deliveries may take. */
const pieceMs = 2
/** How many deliveries are made between two reads of the clock. */
const perLook = 16
/**
 * How many deliveries one slice makes. Each one may wake a stream or a poll, which continues after the slice and takes
 * longer.
 */
const maxPerPiece = 128
/** The lane of all deliveries. Together they take turns like a single caller. */
const lane: Lane = { name: 'deliveries' }

/** Something to deliver to many targets, one after another. */
export interface Delivery<Target> {
  readonly targets: Iterator<Target>
  tell(target: Target): void
  /** Called once all targets have been notified. */
  done(): void
}

/**
 * Makes one delivery after another, each to all its targets. It works in short slices, so that requests are answered in
 * between. The request that causes a delivery does not wait for it.
 */
export class Deliveries<Target> {
  readonly #fairQueue: Pick<FairQueue, 'runLater'>
  readonly #nowMs: () => number
  readonly #waiting: Delivery<Target>[] = []
  #isScheduled = false

  constructor(fairQueue: Pick<FairQueue, 'runLater'>, nowMs: () => number = systemClock.monotonicMs) {
    this.#fairQueue = fairQueue
    this.#nowMs = nowMs
  }

  /** How many deliveries have not yet reached all of their targets. */
  get length(): number {
    return this.#waiting.length
  }

  add(delivery: Delivery<Target>): void {
    this.#waiting.push(delivery)
    this.#schedule()
  }

  /** Drops and returns the deliveries that have not begun. */
  drop(): readonly Delivery<Target>[] {
    return this.#waiting.splice(1)
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    const deliver = () => {
      this.#isScheduled = false
      this.#deliver()
      if (this.#waiting.length > 0) this.#schedule()
    }
    if (!this.#fairQueue.runLater(lane, deliver)) setImmediate(deliver)
  }

  #deliver(): void {
    const untilMs = this.#nowMs() + pieceMs
    let told = 0
    for (let [delivery] = this.#waiting; delivery; [delivery] = this.#waiting) {
      for (let next = delivery.targets.next(); !next.done; next = delivery.targets.next()) {
        delivery.tell(next.value)
        told += 1
        if (told === maxPerPiece || (told % perLook === 0 && this.#nowMs() >= untilMs)) return
      }
      this.#waiting.shift()
      delivery.done()
    }
  }
}
