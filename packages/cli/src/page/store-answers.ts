import type { GroupAnswer, GroupsAnswer, IdentityAnswer, ReplicasAnswer } from '@tenure/page/model/answers'
import { hostname } from 'node:os'
import type { LeaseRecord, LeaseStore, ListPage } from 'tenure'
import { callWithTimeout } from '../shared/calls.ts'
import { now } from '../shared/clock.ts'
import { aboutRemainingMs } from '../shared/election-status.ts'
import { leaseOf, type Observations } from './observed-elections.ts'

/** The page size of a listing, and the most elections that one search reads. */
const readAtOnce = 500
const mostLooked = 5_000
/** How long an answer is cached. Every open page asks again every few seconds, so they share one read of the store. */
const keptMs = 4_000

interface StoreAnswersOptions {
  readonly list: NonNullable<LeaseStore['list']>
  readonly sightings: Observations
  readonly timeoutMs: number
  /** The kind of store as the page shows it, such as `postgres`. */
  readonly kind: string
}

interface ListQuery {
  readonly after: string | undefined
  readonly limit: number
  readonly search: string
}

/** Answers the page's requests from a store, in the format of the HTTP API. */
export class StoreAnswers {
  readonly sightings: Observations
  readonly #options: StoreAnswersOptions
  readonly #kept = new Map<string, { readonly atMs: number; readonly page: Promise<GroupsAnswer> }>()

  constructor(options: StoreAnswersOptions) {
    this.sightings = options.sightings
    this.#options = options
  }

  /** The page reads with the rights of the user who started it. It can do nothing else. */
  identity(): IdentityAnswer {
    return { subject: 'tenure page', admin: false, reader: true, expires_at_ms: null }
  }

  /** A store does not report replicas. */
  replicas(): ReplicasAnswer {
    const { kind } = this.#options
    const storage = { kind, healthy: this.sightings.isHealthy }
    return { answered_by: hostname(), storage, active: null, term: null, replicas: null }
  }

  groups(wanted: ListQuery): Promise<GroupsAnswer> {
    const key = JSON.stringify(wanted)
    const nowMs = now().machineMs
    for (const [old, { atMs }] of this.#kept) if (nowMs - atMs >= keptMs) this.#kept.delete(old)
    const kept = this.#kept.get(key)
    if (kept) return kept.page
    const page = this.#find(wanted)
    this.#kept.set(key, { atMs: nowMs, page })
    // Do not cache a failure, so the next request tries again.
    page.catch(() => this.#kept.delete(key))
    return page
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
    const { list, timeoutMs, sightings } = this.#options
    try {
      const found = await callWithTimeout(timeoutMs, (call) => list(page, call))
      sightings.answered(true)
      return found
    } catch (error) {
      sightings.answered(false)
      throw error
    }
  }
}

/** Converts a record from a listing. The remaining lease time is an estimate until the election is observed. */
function groupOf(record: LeaseRecord): GroupAnswer {
  const lease = leaseOf(record, record.released ? 0 : aboutRemainingMs(record))
  const standing = record.released ? { leader: null, previous_leader: lease } : { leader: lease }
  return { group_id: record.election, highest_term: record.term, ...standing }
}
