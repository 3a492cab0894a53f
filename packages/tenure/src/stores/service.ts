import { isObject } from '@tenure/internal/objects'
import { pause } from '@tenure/internal/pause'
import { systemClock, type Clock } from '../clock.ts'
import { isTenureError, TenureError } from '../errors.ts'
import { Nonsense, objectOf } from '../http/body.ts'
import type { Provided } from '../http/provided.ts'
import type {
  AcquireClaim,
  CallOptions,
  HeldClaim,
  LeaseRecord,
  LeaseStore,
  ListOptions,
  ListPage,
  Outcome,
  WatchOptions,
} from '../lease-store.ts'
import { checkClock } from '../options.ts'
import { checkOptions, type OptionNames } from '../options/check-options.ts'
import { encodeName } from './encode-name.ts'
import { listPage, pageOf } from './list.ts'
import { plainStore } from './plain.ts'
import { granted } from './rules.ts'
import { Cluster, type Reply } from './service/cluster.ts'
import { eventsOf } from './service/events.ts'
import { addressesOf, checkCredentials, type ServiceCredentials } from './service/options.ts'
import { ownRecordOf, recordOf, refusalOf, standingOf } from './service/records.ts'
import { AnswerError, misunderstood } from './service/answer-error.ts'
import { Watches } from './watches.ts'

export type { Provided } from '../http/provided.ts'

/** What {@link serviceStore} takes. */
export interface ServiceStoreOptions extends ServiceCredentials {
  /** Where the service is; several addresses must lead to one cluster. */
  readonly url: string | readonly string[]
  /** A token that names this node. Over `http:` only to this very machine. */
  readonly token?: Provided | undefined
  /** Certificates of authorities to trust, as PEM text. Default: those that Node trusts. */
  readonly ca?: Provided | undefined
  /** A certificate that names this node, as PEM text; with `key`. */
  readonly cert?: Provided | undefined
  readonly key?: Provided | undefined
  readonly clock?: Clock | undefined
}

/** A store in an election service. */
export interface ServiceStore extends LeaseStore {
  /**
   * Like `read`, with what is left of the lease on the clock of the service: 0 if nobody leads. `freeInMs` is how long
   * nobody may lead yet, as after a restore: 0 if somebody leads or may.
   */
  look(
    election: string,
    options: CallOptions,
  ): Promise<{ readonly record: LeaseRecord | undefined; readonly remainingMs: number; readonly freeInMs: number }>
  /**
   * Asks the service for something else than a lease: its groups, say, or who takes part. Gives the answer as it came,
   * even that somebody else leads (`NOT_LEADER`); rejects with every other error. Routes and answers are
   * those of `docs/reference/http-api.md`.
   */
  request(
    request: { readonly method: 'GET' | 'POST' | 'PUT'; readonly path: string; readonly body?: unknown },
    options: CallOptions,
  ): Promise<Readonly<Record<string, unknown>>>
}

type Records = AsyncGenerator<LeaseRecord | undefined, void, undefined>

const names: OptionNames<ServiceStoreOptions> = { url: true, token: true, ca: true, cert: true, key: true, clock: true }
const plainGroup = /^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$/
/** A stream that lasted this long may be resumed at once; one that ends sooner is left to the engine to pace. */
const settledMs = 5_000
/** A stream begins with how things stand, and then shows a sign of life every 15 s. */
const firstWithinMs = 10_000
const silenceMs = 40_000
/** Many watches end at once when a service restarts: each comes back at a moment of its own. */
const spreadMs = 1_000
const longestHoldMs = 300_000

/**
 * Keeps each election in a group of an election service (`tenure serve`). The service judges expiry, on its own clock.
 *
 * @example
 * const store = serviceStore({ url: 'https://elections.example.com', token: () => readFile('token', 'utf8') })
 * await lead({ store, election: 'nightly-report', identity: 'node-17' }, work)
 */
export function serviceStore(options: ServiceStoreOptions): ServiceStore {
  checkOptions('serviceStore()', options, names)
  const { url, token, ca, cert, key, clock = systemClock } = options
  checkClock(clock)
  const credentials = { token, ca, cert, key }
  checkCredentials(credentials)
  return plainStore(new ServiceLeases(new Cluster(addressesOf(url, credentials), credentials, clock), clock))
}

/** Not on a seam: the service judges claims by itself, on its own clock, and gives what came of it. */
class ServiceLeases implements ServiceStore {
  readonly expiry = 'own-clock'
  readonly terms = true
  readonly #cluster: Cluster
  readonly #clock: Clock
  readonly #watches = new Watches()
  /** Until when no watch is tried: the service has too many, or something on the way does not let them through. */
  #noWatchUntilMs = -Infinity

  constructor(cluster: Cluster, clock: Clock) {
    this.#cluster = cluster
    this.#clock = clock
  }

  async read(election: string, call: CallOptions): Promise<LeaseRecord | undefined> {
    return (await this.look(election, call)).record
  }

  look(...[election, call]: Parameters<ServiceStore['look']>): ReturnType<ServiceStore['look']> {
    const request = { method: 'GET', path: pathOf(election, 'leader') } as const
    return this.#cluster.call(request, call, ({ body }) => {
      const { record, retryAfterMs = 0 } = standingOf(election, body)
      const { leader, retry_after_ms: waitMs } = body
      const freeInMs = leader === null && typeof waitMs === 'number' ? Math.max(0, waitMs) : 0
      return { record, remainingMs: record && !record.released ? retryAfterMs : 0, freeInMs }
    })
  }

  async acquire(claim: AcquireClaim, call: CallOptions): Promise<Outcome> {
    const { election, holder, attempt, leaseDurationMs, afterTerm, metadata, mark } = claim
    if (afterTerm >= Number.MAX_SAFE_INTEGER) {
      throw new TenureError('TERM_EXHAUSTED', `Election "${election}" has used its last term, ${afterTerm}.`)
    }
    const lease_ttl_ms = Math.ceil(leaseDurationMs)
    const asked = { node_id: holder, attempt, lease_ttl_ms, after_term: afterTerm, metadata, mark }
    return this.#post(election, 'campaign', asked, call, ({ body }) => {
      const { is_leader: won, leader } = body
      if (won === false) return refusalOf(election, body)
      if (won === true) return granted(ownRecordOf({ election, holder, attempt }, leader, false), claim)
      throw new Nonsense('"is_leader" is neither true nor false')
    })
  }

  renew(claim: HeldClaim, call: CallOptions): Promise<Outcome> {
    const { carry, leaseDurationMs } = claim
    const asked = { ...heldOf(claim), extend_by_ms: Math.ceil(leaseDurationMs), ...(carry !== undefined && { carry }) }
    return this.#post(claim.election, 'renew', asked, call, (reply) => heldOutcome(reply, claim, false))
  }

  release(claim: HeldClaim, call: CallOptions): Promise<Outcome> {
    return this.#post(claim.election, 'resign', heldOf(claim), call, (reply) => heldOutcome(reply, claim, true))
  }

  async *watch(election: string, { signal, holder }: WatchOptions): Records {
    if (this.#clock.monotonicMs() < this.#noWatchUntilMs) return
    yield* this.#watches.run(signal, (ending) => this.#report(election, ending, holder))
  }

  async *#report(election: string, signal: AbortSignal, holder: string | undefined): Records {
    try {
      yield* this.#follow(election, signal, holder)
    } catch (error) {
      const failure = error instanceof Nonsense ? misunderstood('The election service', error.message, 200) : error
      if (!signal.aborted) this.#holdWatches(failure)
      throw failure
    }
  }

  async list(options: ListOptions, call: CallOptions): Promise<ListPage> {
    const { after, limit } = pageOf(options)
    // The service lists fewer than a thousand at a time.
    const asked = { limit: String(Math.min(limit, 999)), ...(after !== undefined && { after }) }
    const request = { method: 'GET', path: `/v1/groups?${new URLSearchParams(asked).toString()}` } as const
    return this.#cluster.call(request, call, ({ body: { groups, next } }) => {
      if (!Array.isArray(groups)) throw new Nonsense('there is no list of groups')
      return listPage(groups, typeof next === 'string' ? next : undefined, listedRecord)
    })
  }

  async close(): Promise<void> {
    this.#watches.close()
    this.#cluster.close()
  }

  request(...[request, call]: Parameters<ServiceStore['request']>): Promise<Reply['body']> {
    return this.#cluster.call(request, call, ({ body }) => body, [200, 201])
  }

  #post(
    election: string,
    verb: string,
    body: unknown,
    call: CallOptions,
    take: (reply: Reply) => Outcome,
  ): Promise<Outcome> {
    return this.#cluster.call({ method: 'POST', path: pathOf(election, verb), body }, call, take)
  }

  /** The state as it is, then each change; resumed where it broke off. A candidate is named, so that it looks alive. */
  async *#follow(election: string, signal: AbortSignal, holder: string | undefined): Records {
    let name = holder === undefined ? '' : `&node_id=${encodeURIComponent(holder)}`
    let shown: string | undefined
    let cursor: string | undefined
    for (;;) {
      const openedMs = this.#clock.monotonicMs()
      // One that is resumed begins with what was missed, which may be nothing.
      let begun = cursor !== undefined
      const worked = () => begun && this.#clock.monotonicMs() - openedMs >= settledMs
      try {
        const lines = this.#cluster.stream(
          `${pathOf(election, 'watch')}?renewals=true${name}`,
          cursor === undefined ? {} : { 'last-event-id': cursor },
          { signal, silenceMs: () => (begun ? silenceMs : firstWithinMs) },
        )
        for await (const { id, data } of eventsOf(lines)) {
          begun = true
          const event = objectOf(data) ?? {}
          if (event['type'] === 'TOO_SLOW') break
          cursor = id ?? cursor
          const state = stateIn(election, event)
          if (!state) continue
          const { record } = state
          const key = record ? `${record.version} ${record.released}` : ''
          if (key === shown) continue
          shown = key
          yield record
        }
        if (!worked()) return
      } catch (error) {
        // The service does not know the cursor, after a restored backup perhaps: how things stand takes its place.
        const isRefused = error instanceof AnswerError && error.code === 'INVALID_REQUEST'
        if (isRefused && cursor !== undefined) {
          cursor = undefined
          continue
        }
        // An earlier version of the service does not know the name.
        if (isRefused && name !== '') {
          name = ''
          continue
        }
        if (!isTenureError(error) || !error.retryable || !worked()) throw error
      }
      await pause(this.#clock, this.#clock.random() * spreadMs, signal)
      signal.throwIfAborted()
    }
  }

  /** Standbys poll meanwhile. */
  #holdWatches(error: unknown): void {
    if (!(error instanceof AnswerError)) return
    const holdMs = error.retryAfterMs ?? (error.status === 200 ? longestHoldMs : 0)
    this.#noWatchUntilMs = this.#clock.monotonicMs() + Math.min(holdMs, longestHoldMs)
  }
}

/** What an event says of the election; undefined if nothing. */
function stateIn(
  election: string,
  event: Readonly<Record<string, unknown>>,
): { readonly record: LeaseRecord | undefined } | undefined {
  if (event['group_id'] !== groupOf(election)) return undefined
  switch (event['type']) {
    case 'STATE':
      return standingOf(election, event)
    case 'LEADER_CHANGED':
    case 'RENEWED':
      return { record: recordOf(election, event['leader'], false) }
    case 'LEADER_LOST': {
      if (event['reason'] === 'deleted') return { record: undefined }
      const record = recordOf(election, event['previous_leader'], true)
      return { record: event['reason'] === 'expired' ? { ...record, ranOut: true } : record }
    }
    default:
      return undefined
  }
}

/** A group that was defined, and in which nobody has led yet, has no record. */
function listedRecord(group: unknown): LeaseRecord | undefined {
  if (!isObject(group) || typeof group['group_id'] !== 'string') throw new Nonsense('a group has no name')
  const { group_id: election, leader, previous_leader: previous } = group
  const held = leader !== null
  if (!held && previous === undefined) return undefined
  if (groupOf(election) === election) return recordOf(election, held ? leader : previous, !held)
  throw new Nonsense(`of the election in group "${election}" the service knows the hash of its name only`)
}

function heldOutcome({ refused, body }: Reply, claim: HeldClaim, released: boolean): Outcome {
  if (refused) return refusalOf(claim.election, body, 'current_leader')
  return granted(ownRecordOf(claim, body['leader'], released), claim)
}

function heldOf({ holder, attempt, term, version, mark }: HeldClaim) {
  return { node_id: holder, attempt, term, version, mark }
}

function groupOf(election: string): string {
  return encodeName(election, plainGroup)
}

function pathOf(election: string, what: string): string {
  return `/v1/groups/${encodeURIComponent(groupOf(election))}/${what}`
}
