import type { Clock } from '../../../tenure/src/common/clock.ts'
import type { Link } from '../../../testing/src/simulation/link.ts'
import type { Random } from '../../../testing/src/simulation/random.ts'
import {
  judgeAppend,
  type Appended,
  type Batch,
  type FollowerReads,
  type GroupsAt,
  type LoadedGroup,
  type History,
  type ListedBatch,
  type Loaded,
  type Storage,
  type StorageHead,
} from '../../src/storage/storage.ts'

interface State {
  readonly head: StorageHead
  readonly groups: ReadonlyMap<string, LoadedGroup>
  /** The newest batches, by seq. */
  readonly batches: ReadonlyMap<number, ListedBatch>
}

const callMs = 1_500
const pageGroups = 2
const keptStates = 12
/** Only a few, so that followers fall behind. */
const listedBatches = 30
const maxRead = 3

/** The server with the records of groups, which loses data in the same ways as real servers. */
export class StorageServer {
  /** The state that every reader sees. */
  #shown: State
  /** The last confirmed state. A failover shows this one. */
  #confirmed: State
  #past: State[] = []
  /** For each history, whether it began with everything that was confirmed in the previous one. */
  readonly #histories = [true]
  /** How many of the next appends become visible but are reported as failed. */
  cancels = 0
  readonly counts = { appends: 0, fenced: 0, cancelled: 0, failovers: 0, tailsLost: 0 }

  /** The attempt of each confirmed term of each group. */
  readonly #attempts = new Map<string, string>()
  readonly #onReuse: (what: string) => void

  constructor(onReuse: (what: string) => void) {
    this.#onReuse = onReuse
    const head = { term: 0, seq: 0, batch: '', clusterId: 'cluster', restores: 0, secret: 'secret' }
    this.#shown = { head: { ...head, incarnation: nameOf(0) }, groups: new Map(), batches: new Map() }
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
    const { seq, batch: id } = head
    const batches = new Map(this.#shown.batches)
    batches.set(seq, { seq, batch: id, after: expected.batch, ids: groups.map((group) => group.id) })
    batches.delete(seq - listedBatches)
    this.#shown = { head, groups: all, batches }
    if (this.cancels > 0) {
      this.cancels -= 1
      this.counts.cancelled += 1
      return 'cancelled'
    }
    this.#confirm()
    return 'done'
  }

  /** A term belongs to one candidacy forever, whether or not it was answered. */
  #confirm(): void {
    this.#past = [...this.#past.slice(1 - keptStates), this.#confirmed]
    this.#confirmed = this.#shown
    for (const { id, record } of this.#shown.groups.values()) {
      const { attempt, leaseTerm = record.term } = record
      if (attempt === undefined) continue
      const name = `term ${leaseTerm} of ${id}`
      const known = this.#attempts.get(name)
      if (known !== undefined && known !== attempt) this.#onReuse(`${name} was granted to both ${known} and ${attempt}`)
      this.#attempts.set(name, attempt)
    }
  }

  /** Another server takes over with exactly the confirmed state. */
  failOver(): void {
    this.counts.failovers += 1
    this.#shown = this.#confirmed
    this.#histories.push(true)
  }

  /** Another server takes over. It lacks the newest appends, although they were confirmed. */
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

  #followerReads(call: Call, clock: Clock, pageMs: () => number): FollowerReads {
    const read = (pick: (all: ReadonlyMap<string, LoadedGroup>) => LoadedGroup[]): Promise<GroupsAt> =>
      call(() => ({ head: this.head, parts: [pick(this.state.groups)] }))
    return {
      maxRead,
      head: () => call(() => this.head),
      page: async (from) => {
        await new Promise<void>((resolve) => void clock.setTimer(pageMs(), resolve))
        const begin = Number(from ?? 0)
        const page = await read((all) => [...all.values()].toSorted(byId).slice(begin, begin + pageGroups))
        const count = [...page.parts].flat().length
        return { ...page, next: count < pageGroups ? undefined : String(begin + count) }
      },
      groups: (ids) => read((all) => ids.flatMap((id) => all.get(id) ?? [])),
      batches: (from, to) => {
        const isAsked = ({ seq }: ListedBatch) => seq >= from && seq <= to
        return call(() => new Map([...this.state.batches].filter(([, batch]) => isAsked(batch))))
      },
    }
  }

  /** The storage as a replica sees it. Each call is a message to the server and a reply, with a timeout. */
  through(link: Link, clock: Clock, pageMs: () => number): Storage {
    const call = <T>(apply: () => T): Promise<T> => {
      const controller = new AbortController()
      const timer = clock.setTimer(callMs, () => controller.abort(new Error('no answer in time')))
      return link.send({ signal: controller.signal }, async () => apply()).finally(() => timer.cancel())
    }
    const pagesOf = async function* (groups: readonly LoadedGroup[]): AsyncGenerator<readonly LoadedGroup[]> {
      for (let from = 0; from < groups.length; from += pageGroups) {
        await new Promise<void>((resolve) => void clock.setTimer(pageMs(), resolve))
        yield call(() => groups.slice(from, from + pageGroups))
      }
    }
    return {
      follower: this.#followerReads(call, clock, pageMs),
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

type Call = <T>(apply: () => T) => Promise<T>

const nameOf = (index: number) => `history-${index + 1}`
const byId = (one: LoadedGroup, other: LoadedGroup) => (one.id < other.id ? -1 : 1)
