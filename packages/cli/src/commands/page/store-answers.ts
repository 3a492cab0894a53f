import type {
  GroupAnswer,
  GroupsAnswer,
  IdentityAnswer,
  MembersAnswer,
  ReplicasAnswer,
} from '@tenure/page/model/answers'
import { hostname } from 'node:os'
import type { LeaseRecord, LeaseStore, ListPage } from 'tenure'
import { callWithTimeout } from '../../shared/call-with-timeout.ts'
import { now } from '../../shared/clock.ts'
import { estimatedRemainingMs } from '../../shared/election-status.ts'
import { memberAnswerOf, observerOf } from '../../shared/store-members.ts'
import { leaseOf, type Observations } from './observed-elections.ts'

/** The page size of a listing, and the maximum number of elections that one search reads. */
const readAtOnce = 500
const mostLooked = 5_000
/** How long an answer is cached. Every open page asks again every few seconds, so they share one read of the store. */
const cacheMs = 4_000

interface StoreAnswersOptions {
  readonly store: LeaseStore
  readonly list: NonNullable<LeaseStore['list']>
  readonly observations: Observations
  readonly timeoutMs: number
  /** The kind of store as the page shows it, such as `postgres`. */
  readonly kind: string
}

interface ListQuery {
  readonly after: string | undefined
  readonly limit: number
  readonly search: string
}

/** The seats of an election are observed for this long after a page last asked for its members. */
const observeMembersMs = 60_000

interface ObservedMembers {
  readonly observer: ReturnType<typeof observerOf>
  readonly atMs: number
  readonly answer: Promise<MembersAnswer>
}

/** Answers the page's requests from a store, in the format of the HTTP API. */
export class StoreAnswers {
  readonly observations: Observations
  readonly #options: StoreAnswersOptions
  readonly #kept = new Map<string, { readonly atMs: number; readonly page: Promise<GroupsAnswer> }>()

  readonly #members = new Map<string, ObservedMembers>()

  constructor(options: StoreAnswersOptions) {
    this.observations = options.observations
    this.#options = options
  }

  /** Returns the rights of the page. The page only reads, with the rights of the user who started it. */
  identity(): IdentityAnswer {
    return { subject: 'tenure page', admin: false, reader: true, expires_at_ms: null }
  }

  /** Returns the health of the store. Lists no replicas, because a store does not report them. */
  replicas(): ReplicasAnswer {
    const { kind } = this.#options
    const storage = { kind, healthy: this.observations.isHealthy }
    return { answered_by: hostname(), storage, active: null, term: null, replicas: null }
  }

  groups(wanted: ListQuery): Promise<GroupsAnswer> {
    const key = JSON.stringify(wanted)
    const nowMs = now().machineMs
    for (const [old, { atMs }] of this.#kept) if (nowMs - atMs >= cacheMs) this.#kept.delete(old)
    const kept = this.#kept.get(key)
    if (kept) return kept.page
    const page = this.#find(wanted)
    this.#kept.set(key, { atMs: nowMs, page })
    // Do not cache a failure, so that the next request tries again.
    page.catch(() => this.#kept.delete(key))
    return page
  }

  /**
   * Lists the processes that hold a seat of the election. Null if there are none, because the candidates may run without
   * presence.
   */
  members(election: string): Promise<MembersAnswer> {
    const nowMs = now().machineMs
    for (const [old, { atMs }] of this.#members) if (nowMs - atMs >= observeMembersMs) this.#members.delete(old)
    const known = this.#members.get(election)
    if (known && nowMs - known.atMs < cacheMs) return known.answer
    // From one answer to the next, the same observer sees whether each seat was renewed.
    const observer = known?.observer ?? observerOf(this.#options.store, election, this.#options.timeoutMs)
    const answer = observer.look().then(() => {
      const members = observer.members().map(memberAnswerOf)
      return { members: members.length === 0 ? null : members }
    })
    this.#members.set(election, { observer, atMs: nowMs, answer })
    answer.catch(() => this.#members.delete(election))
    return answer
  }

  async #find({ after, limit, search }: ListQuery): Promise<GroupsAnswer> {
    const sought = search.toLowerCase()
    const groups: GroupAnswer[] = []
    let next = after
    for (let looked = 0; looked < mostLooked; looked += readAtOnce) {
      const { records, next: following } = await this.#read({ after: next, limit: sought === '' ? limit : readAtOnce })
      for (const record of records) {
        if (!record.election.toLowerCase().includes(sought)) continue
        // Further matches belong to the next page.
        if (groups.length === limit) return { groups, next: groups.at(-1)?.group_id ?? null }
        groups.push(groupOf(record))
      }
      next = following
      if (next === undefined || sought === '') break
    }
    return { groups, next: next ?? null }
  }

  async #read(page: { readonly after: string | undefined; readonly limit: number }): Promise<ListPage> {
    const { list, timeoutMs, observations } = this.#options
    try {
      const found = await callWithTimeout(timeoutMs, (call) => list(page, call))
      observations.answered(true)
      return found
    } catch (error) {
      observations.answered(false)
      throw error
    }
  }
}

/** Converts a record from a listing. The remaining lease time is an estimate until the election is observed. */
function groupOf(record: LeaseRecord): GroupAnswer {
  const lease = leaseOf(record, record.released ? 0 : estimatedRemainingMs(record))
  const standing = record.released ? { leader: null, previous_leader: lease } : { leader: lease }
  return { group_id: record.election, highest_term: record.term, ...standing }
}
