import { systemClock } from '@tenure/internal/clock'

/**
 * How long work runs in one turn of the event loop before sockets are polled again. It is short, because libuv accepts
 * one connection in each turn.
 */
const turnMs = 2
/** The maximum number of pieces of work that one turn begins. */
const maxPerTurn = 32
/**
 * The time that a lane earns in each round. It is about what a short request takes, so that short requests run in every
 * round.
 */
const quantumMs = 0.1

/** The owner of the work: a subject, or any other party that takes turns. */
export type Lane = string | object

/** Work of callers without an identity. They share one lane, in which each millisecond counts four times. */
export const anonymous: Lane = { name: 'anonymous' }
const anonymousPrice = 4

interface Waiting {
  readonly works: (() => void)[]
  /** The time used beyond what was earned. */
  debtMs: number
}

interface LoopTurn {
  untilMs: number | undefined
}

/** The options of {@link FairQueue}. */
export interface FairQueueOptions {
  readonly nowMs?: () => number
  /** Runs a callback in the next turn of the event loop, in the order of the calls. */
  readonly later?: (callback: () => void) => void
  /**
   * How many pieces of work of one lane may wait. After a stall, all clients of one subject arrive at once. Default:
   * 8,192.
   */
  readonly maxWaiting?: number
}

/**
 * Divides the event loop among lanes. Work begins at once while the turn has time left and nothing waits. Otherwise it
 * waits, and each turn begins some of the waiting work, lane after lane. A lane that has used more than its time is
 * skipped until the others have used theirs. So a caller with one request waits for only one round of the other lanes,
 * however many requests they have.
 *
 * The time of a piece of work is measured until the next callback of the event loop, so it includes the promises that
 * the work settles.
 */
export class FairQueue {
  /** In the order of their turns. */
  readonly #lanes = new Map<Lane, Waiting>()
  readonly #nowMs: () => number
  readonly #later: (callback: () => void) => void
  readonly #maxWaiting: number
  #waiting = 0
  #isScheduled = false
  #turn = 0
  /** When the first work of this turn began. */
  #turnBeganMs: number | undefined
  #running: { readonly lane: Lane; readonly waiting: Waiting; readonly sinceMs: number } | undefined

  constructor({ nowMs = systemClock.monotonicMs, later = setImmediate, maxWaiting = 8_192 }: FairQueueOptions = {}) {
    this.#nowMs = nowMs
    this.#later = later
    this.#maxWaiting = maxWaiting
  }

  /** How many pieces of work wait. */
  get waiting(): number {
    return this.#waiting
  }

  /** Returns whether work of this lane waits. */
  isBusy(lane: Lane): boolean {
    return (this.#lanes.get(lane)?.works.length ?? 0) > 0
  }

  /** A number that changes with each turn of the event loop that ran work. */
  get turn(): number {
    return this.#turn
  }

  /**
   * Begins the work now or in its turn. Returns false, and never runs the work, if too much work of this lane is
   * already waiting.
   */
  run(lane: Lane, work: () => void): boolean {
    if (this.#waiting === 0 && this.#hasTime()) {
      work()
      return true
    }
    return this.#enqueue(lane, work)
  }

  /** Begins the work in a later turn, even if nothing waits. */
  runLater(lane: Lane, work: () => void): boolean {
    return this.#enqueue(lane, work)
  }

  #enqueue(lane: Lane, work: () => void): boolean {
    const found = this.#lanes.get(lane)
    if (found && found.works.length >= this.#maxWaiting) return false
    if (found) found.works.push(work)
    else this.#lanes.set(lane, { works: [work], debtMs: 0 })
    this.#waiting += 1
    this.#schedule()
    return true
  }

  /** Charges a lane for time that its work causes later. */
  charge(lane: Lane, ms: number): void {
    const waiting = this.#lanes.get(lane)
    if (waiting) waiting.debtMs += ms
  }

  #hasTime(): boolean {
    const nowMs = this.#nowMs()
    if (this.#turnBeganMs !== undefined) return nowMs - this.#turnBeganMs < turnMs
    this.#turnBeganMs = nowMs
    this.#later(() => {
      this.#turnBeganMs = undefined
      this.#turn += 1
    })
    return true
  }

  /** Each piece of work has its own callback, so that everything it settles runs before the next one begins. */
  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    const turn: LoopTurn = { untilMs: undefined }
    const count = Math.min(this.#waiting, maxPerTurn)
    for (let index = 0; index < count; index++) this.#later(() => this.#begin(turn))
    this.#later(() => {
      this.#settle(this.#nowMs())
      this.#isScheduled = false
      this.#turn += 1
      if (this.#waiting > 0) this.#schedule()
    })
  }

  #begin(turn: LoopTurn): void {
    const nowMs = this.#nowMs()
    this.#settle(nowMs)
    turn.untilMs ??= nowMs + turnMs
    if (nowMs >= turn.untilMs) return
    const [lane, waiting] = this.#next() ?? []
    const work = waiting?.works.shift()
    if (lane === undefined || !waiting || !work) return
    this.#waiting -= 1
    this.#running = { lane, waiting, sinceMs: nowMs }
    work()
  }

  /** Returns the lane whose turn it is, and moves it to the end of the queue. */
  #next(): [Lane, Waiting] | undefined {
    for (const [lane, waiting] of this.#lanes) {
      this.#lanes.delete(lane)
      // Once a lane has no work left, its debt is dropped, because nobody is waiting for the time that it used.
      if (waiting.works.length === 0) continue
      this.#lanes.set(lane, waiting)
      // Lanes do not save up time: a lane that was quiet for a long time gets no more time than others.
      waiting.debtMs = Math.max(waiting.debtMs - quantumMs, -quantumMs)
      if (waiting.debtMs < 0) return [lane, waiting]
    }
    return undefined
  }

  #settle(nowMs: number): void {
    if (!this.#running) return
    const { lane, waiting, sinceMs } = this.#running
    waiting.debtMs += (nowMs - sinceMs) * (lane === anonymous ? anonymousPrice : 1)
    this.#running = undefined
  }
}
