import { systemClock } from '@tenure/internal/clock'

/**
 * How long work runs in one turn of the event loop before sockets are looked at again. Short, because libuv accepts one
 * connection in each turn.
 */
const turnMs = 2
/** Pieces of work that one turn begins at most. */
const mostPerTurn = 32
/** The time that a lane earns in each round. About that of a short request, so that short ones run in every round. */
const quantumMs = 0.1

/** Whose work it is: a subject, or anything else that takes turns with others. */
export type Lane = string | object

/** Work of callers without an identity: one lane for all of them, and each millisecond counts fourfold. */
export const anonymous: Lane = { name: 'anonymous' }
const anonymousPrice = 4

interface Waiting {
  readonly works: (() => void)[]
  /** The time that was used beyond what was earned. */
  debtMs: number
}

interface Turn {
  untilMs: number | undefined
}

/** What {@link FairQueue} works with. */
export interface FairQueueOptions {
  readonly nowMs?: () => number
  /** Runs something in the next turn of the event loop, in the order of the calls. */
  readonly later?: (callback: () => void) => void
  /** Pieces of work of one lane that may wait. After a stall, all clients of one subject come at once. Default: 8,192. */
  readonly mostWaiting?: number
}

/**
 * Divides the event loop among lanes. Work begins at once while the turn has time left and nobody waits. Otherwise it
 * waits, and each turn begins some of what waits: lane after lane, and a lane that has used more than its time is
 * skipped until the others have used theirs. So a caller with one request waits for one round of the others, however
 * many requests they have.
 *
 * The time of a piece of work is measured up to the next callback of the event loop, which includes the promises that it
 * settles.
 */
export class FairQueue {
  /** In the order of their turns. */
  readonly #lanes = new Map<Lane, Waiting>()
  readonly #nowMs: () => number
  readonly #later: (callback: () => void) => void
  readonly #mostWaiting: number
  #waiting = 0
  #isScheduled = false
  #turn = 0
  /** When the first work began in this turn. */
  #turnBeganMs: number | undefined
  #running: { readonly lane: Lane; readonly waiting: Waiting; readonly sinceMs: number } | undefined

  constructor({ nowMs = systemClock.monotonicMs, later = setImmediate, mostWaiting = 8_192 }: FairQueueOptions = {}) {
    this.#nowMs = nowMs
    this.#later = later
    this.#mostWaiting = mostWaiting
  }

  /** How many pieces of work wait. */
  get waiting(): number {
    return this.#waiting
  }

  /** Whether work of this lane waits. */
  isBusy(lane: Lane): boolean {
    return (this.#lanes.get(lane)?.works.length ?? 0) > 0
  }

  /** Another number in each turn of the event loop in which there was work. */
  get turn(): number {
    return this.#turn
  }

  /** Begins the work now or in its turn. False: too much of this lane waits already, and this is not going to run. */
  run(lane: Lane, work: () => void): boolean {
    if (this.#waiting === 0 && this.#hasTime()) {
      work()
      return true
    }
    return this.#enqueue(lane, work)
  }

  /** Begins the work in a later turn, even if nobody waits. */
  runLater(lane: Lane, work: () => void): boolean {
    return this.#enqueue(lane, work)
  }

  #enqueue(lane: Lane, work: () => void): boolean {
    const found = this.#lanes.get(lane)
    if (found && found.works.length >= this.#mostWaiting) return false
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
    const turn: Turn = { untilMs: undefined }
    const count = Math.min(this.#waiting, mostPerTurn)
    for (let index = 0; index < count; index++) this.#later(() => this.#begin(turn))
    this.#later(() => {
      this.#settle(this.#nowMs())
      this.#isScheduled = false
      this.#turn += 1
      if (this.#waiting > 0) this.#schedule()
    })
  }

  #begin(turn: Turn): void {
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

  /** The lane whose turn it is. It goes to the end of the line. */
  #next(): [Lane, Waiting] | undefined {
    for (const [lane, waiting] of this.#lanes) {
      this.#lanes.delete(lane)
      // What it owes is forgotten with the last of its work: nobody waits for what it used.
      if (waiting.works.length === 0) continue
      this.#lanes.set(lane, waiting)
      // Nothing is saved up for later: whoever was quiet for long has no more time than others.
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
