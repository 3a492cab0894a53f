import type { Clock } from '../../../tenure/src/common/clock.ts'
import type { Link } from '../../../tenure/src/simulation/link.ts'
import type { Random } from '../../../tenure/src/simulation/random.ts'
import {
  judgeAppend,
  type Appended,
  type Batch,
  type FoundGroup,
  type History,
  type Loaded,
  type Storage,
  type StorageHead,
} from '../../src/storage/storage.ts'

interface State {
  readonly head: StorageHead
  readonly groups: ReadonlyMap<string, FoundGroup>
}

const callMs = 1_500
const pageGroups = 2
const keptStates = 12

/** The server with the records of groups, which loses data in the ways in which real servers do. */
export class StorageServer {
  /** The state that every reader sees. */
  #shown: State
  /** The last confirmed state. A failover shows this one. */
  #confirmed: State
  #past: State[] = []
  /** For each history, whether it had everything that was confirmed in the previous one. */
  readonly #histories = [true]
  /** The number of appends that become visible but are reported as failed. */
  cancels = 0
  readonly counts = { appends: 0, fenced: 0, cancelled: 0, failovers: 0, tailsLost: 0 }

  /** The attempt of each confirmed term of each group. */
  readonly #attempts = new Map<string, string>()
  readonly #onReuse: (what: string) => void

  constructor(onReuse: (what: string) => void) {
    this.#onReuse = onReuse
    const head = { term: 0, seq: 0, batch: '', clusterId: 'cluster', restores: 0, secret: 'secret' }
    this.#shown = { head: { ...head, incarnation: nameOf(0) }, groups: new Map() }
    this.#confirmed = this.#shown
  }

  get head(): StorageHead {
    return this.#shown.head
  }

  get history(): History {
    const since = this.#histories.findIndex((_, index) => nameOf(index) === this.head.incarnation)
    const isComplete = this.#histories.slice(since + 1).every(Boolean)
    return { incarnation: nameOf(this.#histories.length - 1), isComplete }
  }

  get state(): State {
    return this.#shown
  }

  append(expected: StorageHead, batch: Batch): Appended | 'cancelled' {
    const { head, groups } = batch
    const judged = judgeAppend(this.#shown.head, expected, batch)
    if (judged === 'confirm') {
      this.#confirm()
      return 'done'
    }
    if (judged === 'fenced') {
      this.counts.fenced += 1
      return judged
    }
    this.counts.appends += 1
    const all = new Map(this.#shown.groups)
    for (const { id, record } of groups) all.set(id, { id, record, seq: head.seq })
    this.#shown = { head, groups: all }
    if (this.cancels > 0) {
      this.cancels -= 1
      this.counts.cancelled += 1
      return 'cancelled'
    }
    this.#confirm()
    return 'done'
  }

  /** A term belongs to one candidacy forever, whether it was answered or not. */
  #confirm(): void {
    this.#past = [...this.#past.slice(1 - keptStates), this.#confirmed]
    this.#confirmed = this.#shown
    for (const { id, record } of this.#shown.groups.values()) {
      const { attempt, leaseTerm = record.term } = record
      if (attempt === undefined) continue
      const name = `term ${leaseTerm} of ${id}`
      const known = this.#attempts.get(name)
      if (known !== undefined && known !== attempt) this.#onReuse(`${name} was given to ${known} and to ${attempt}`)
      this.#attempts.set(name, attempt)
    }
  }

  /** Another server takes over with exactly the confirmed state. */
  failOver(): void {
    this.counts.failovers += 1
    this.#shown = this.#confirmed
    this.#histories.push(true)
  }

  /** Another server takes over that lacks the newest appends, although they were confirmed. */
  loseTail(random: Random): void {
    // Losing the same data twice could also lose the measures taken after the first loss.
    const states = this.#past.filter(({ head }) => head.restores === this.#confirmed.head.restores)
    if (states.length === 0) return
    this.counts.tailsLost += 1
    this.#shown = random.pick(states)
    this.#confirmed = this.#shown
    this.#past = []
    this.#attempts.clear()
    this.#histories.push(false)
  }

  /** The storage as a replica sees it: each call is a message there and one back, with a timeout. */
  through(link: Link, clock: Clock, pageMs: () => number): Storage {
    const call = <T>(apply: () => T): Promise<T> => {
      const controller = new AbortController()
      const timer = clock.setTimer(callMs, () => controller.abort(new Error('no answer in time')))
      return link.send({ signal: controller.signal }, async () => apply()).finally(() => timer.cancel())
    }
    const pagesOf = async function* (groups: readonly FoundGroup[]): AsyncGenerator<readonly FoundGroup[]> {
      for (let from = 0; from < groups.length; from += pageGroups) {
        await new Promise<void>((resolve) => void clock.setTimer(pageMs(), resolve))
        yield call(() => groups.slice(from, from + pageGroups))
      }
    }
    return {
      maxBatch: { groups: 3, bytes: 100_000 },
      head: () => call(() => this.head),
      history: () => call(() => this.history),
      append: async (expected, batch) => {
        const appended = await call(() => this.append(expected, batch))
        if (appended === 'cancelled') throw new Error('the commit was cancelled')
        return appended
      },
      load: async (): Promise<Loaded> => {
        const { head, groups } = await call(() => this.state)
        return { head, pages: pagesOf([...groups.values()]) }
      },
      check: () => call(() => undefined),
      async close() {},
    } satisfies Storage
  }
}

const nameOf = (index: number) => `history-${index + 1}`
