import type { Timeline } from '../../../testing/src/simulation/timeline.ts'
import type { World } from '../../../testing/src/simulation/world.ts'
import { unexplained, type Operation } from '../linearizable.ts'

/** How long after its last progress a call may still take effect. */
const lateMs = 20_000

/** The coverage of a run. A count of zero means that the run proves nothing about that case. */
export interface Counts {
  grants: number
  renewals: number
  refusals: number
  reads: number
  ends: number
  unanswered: number
  elected: number
  served: number
  /** How many times a replica served from the copy that it kept as a follower. */
  servedFromCopy: number
  termsLost: number
  termsFenced: number
  termsSuperseded: number
  tailsLost: number
}

/** An operation in progress. */
export interface Recorded {
  operation: Operation
  /** Whether the request never arrived. */
  isLost: boolean
  /** When a replica last worked on the operation. */
  untilMs: number
}

/** All client requests and their answers, and the invariants over them. */
export class History {
  readonly violations: string[] = []
  readonly counts: Counts = {
    grants: 0,
    renewals: 0,
    refusals: 0,
    reads: 0,
    ends: 0,
    unanswered: 0,
    elected: 0,
    served: 0,
    servedFromCopy: 0,
    termsLost: 0,
    termsFenced: 0,
    termsSuperseded: 0,
    tailsLost: 0,
  }
  /** Whether confirmed data was lost, so that earlier answers may no longer hold. */
  isLossy = false
  /** When a grant or renewal was last confirmed in each group. */
  readonly servedAtMs = new Map<string, number>()
  readonly #world: World
  readonly #timeline: Timeline
  readonly #operations = new Map<string, Recorded[]>()
  readonly #grants = new Map<string, { term: number; attempts: Map<number, string> }>()

  constructor(world: World, timeline: Timeline) {
    this.#world = world
    this.#timeline = timeline
  }

  begin(groupId: string, operation: Operation): Recorded {
    const recorded = { operation, isLost: true, untilMs: this.#world.nowMs }
    const all = this.#operations.get(groupId)
    if (all) all.push(recorded)
    else this.#operations.set(groupId, [recorded])
    return recorded
  }

  /** Terms increase, and each term belongs to one candidacy, in the order in which replicas grant them. */
  granted(groupId: string, term: number, attempt: string): void {
    const known = this.#grants.get(groupId) ?? { term: 0, attempts: new Map<number, string>() }
    this.#grants.set(groupId, known)
    if (known.attempts.get(term) === attempt) return
    this.counts.grants += 1
    if (known.attempts.has(term)) this.violate('terms', `term ${term} of ${groupId} was granted twice`)
    if (term <= known.term) this.violate('terms', `term ${term} of ${groupId} was granted after ${known.term}`)
    known.attempts.set(term, attempt)
    known.term = Math.max(known.term, term)
  }

  /** At most one client believes that it leads a group. */
  inspect(
    clients: readonly { readonly name: string; readonly groupId: string; believes(): number | undefined }[],
  ): void {
    const believers = new Map<string, string>()
    for (const client of clients) {
      const term = client.believes()
      if (term === undefined) continue
      const other = believers.get(client.groupId)
      const text = `${client.name} (term ${term})`
      if (other) this.violate('belief', `${other} and ${text} lead ${client.groupId} at once`)
      believers.set(client.groupId, text)
    }
  }

  /** Checks that all answers about each group can be put into one order. */
  explain(): void {
    for (const [groupId, recorded] of this.#operations) {
      const history = recorded.flatMap(({ operation, isLost, untilMs }): Operation[] => {
        if (operation.answer) return [operation]
        this.counts.unanswered += 1
        return isLost ? [] : [{ ...operation, answeredMs: untilMs + lateMs }]
      })
      if (this.isLossy) continue
      const unclear = unexplained(history)
      if (unclear) this.violate('order', `of ${groupId}: ${unclear}`)
    }
  }

  violate(invariant: string, what: string): void {
    const text = `${invariant}: ${what}, at ${(this.#world.nowMs / 1000).toFixed(3)} s`
    this.#timeline.add(this.#world.nowMs, 'CHECK', `*** ${text}`)
    this.violations.push(text)
  }
}
