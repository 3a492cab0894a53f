/**
 * Keeps elections in groups of an election service.
 *
 * @module
 */
import { isObject } from '@tenure/internal/objects'
import { pause } from '@tenure/internal/pause'
import { systemClock, type Clock } from '../../common/clock.ts'
import { isTenureError, TenureError } from '../../common/errors.ts'
import { MalformedResponse, objectOf } from '../../clients/http/body.ts'
import type { Provided } from '../../clients/http/provided.ts'
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
} from '../../engine/lease-store.ts'
import { checkClock } from '../../engine/check-values.ts'
import { checkOptions, type OptionNames } from '../../common/check-options.ts'
import { encodeName } from '../../store-kit/encode-name.ts'
import { listPage, pageOf } from '../../store-kit/list.ts'
import { plainStore } from '../../store-kit/bound-store.ts'
import { granted } from '../../store-kit/rules.ts'
import { Cluster, type ServiceReply } from './cluster.ts'
import { eventsOf } from './events.ts'
import { checkTokenCredentials, type TokenCredentials } from '../../clients/http/bearer-token.ts'
import { addressesOf } from './options.ts'
import { ownRecordOf, recordOf, refusalOf, groupStateOf } from './answer-records.ts'
import { AnswerError, malformedResponse } from './answer-error.ts'
import { OpenWatches } from '../../store-kit/watches.ts'

export type { Provided } from '../../clients/http/provided.ts'

/** Options of {@link serviceStore}. */
export interface ServiceStoreOptions extends TokenCredentials {
  /** URL of the service. Several URLs must lead to the same cluster. */
  readonly url: string | readonly string[]
  /** A token that identifies this node. Sent over `http:` only to this machine. */
  readonly token?: Provided | undefined
  /** CA certificates to trust, as PEM text. Default: those that Node trusts. */
  readonly ca?: Provided | undefined
  /** A client certificate that identifies this node, as PEM text. Requires `key`. */
  readonly cert?: Provided | undefined
  readonly key?: Provided | undefined
  readonly clock?: Clock | undefined
}

/** A store in an election service. */
export interface ServiceStore extends LeaseStore {
  /**
   * Returns the record, and the time left on its lease by the service's clock: 0 if there is no leader. `freeInMs` is
   * the time until a lease can be granted, which may be above 0 after a restore, for example. It is 0 if there is a
   * leader or a lease can be granted now.
   */
  look(
    election: string,
    options: CallOptions,
  ): Promise<{ readonly record: LeaseRecord | undefined; readonly remainingMs: number; readonly freeInMs: number }>
  /**
   * Sends any other request to the service, for example for its groups or the candidates. Returns the answer unchanged,
   * even if it says that another node leads (`NOT_LEADER`). Rejects on every other error. `docs/reference/http-api.md`
   * describes the routes and answers.
   */
  request(
    request: { readonly method: 'GET' | 'POST' | 'PUT'; readonly path: string; readonly body?: unknown },
    options: CallOptions,
  ): Promise<Readonly<Record<string, unknown>>>
}

type Records = AsyncGenerator<LeaseRecord | undefined, void, undefined>

const names: OptionNames<ServiceStoreOptions> = { url: true, token: true, ca: true, cert: true, key: true, clock: true }
const plainGroup = /^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$/
/** A stream that lasted this long may be resumed immediately. If it ends sooner, the engine decides when to retry. */
const settledMs = 5_000
/** A stream begins with the current state, and then sends a heartbeat every 15 s. */
const firstWithinMs = 10_000
const silenceMs = 40_000
/** Many watches end at once when a service restarts. A random delay spreads their reconnects. */
const spreadMs = 1_000
const longestHoldMs = 300_000

/**
 * Keeps each election in a group of an election service (`tenure serve`). The service decides expiry on its own clock.
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
  checkTokenCredentials(credentials)
  return plainStore(new ServiceLeases(new Cluster(addressesOf(url, credentials), credentials, clock), clock))
}

/**
 * Does not use the shared rules, because the service itself decides claims by its own clock, and returns the outcome.
 */
class ServiceLeases implements ServiceStore {
  readonly expiry = 'own-clock'
  readonly terms = true
  readonly keepsTerms = true
  readonly #cluster: Cluster
  readonly #clock: Clock
  readonly #watches = new OpenWatches()
  /**
   * When a watch may be tried again. None is tried now, because the service has too many, or a proxy does not let them
   * through.
   */
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
      const { record, retryAfterMs = 0 } = groupStateOf(election, body)
      const { leader, retry_after_ms: waitMs } = body
      const freeInMs = leader === null && typeof waitMs === 'number' ? Math.max(0, waitMs) : 0
      return { record, remainingMs: record && !record.released ? retryAfterMs : 0, freeInMs }
    })
  }

  async acquire(claim: AcquireClaim, call: CallOptions): Promise<Outcome> {
    const { election, holder, attempt, leaseDurationMs, afterTerm, metadata, writeId } = claim
    if (afterTerm >= Number.MAX_SAFE_INTEGER) {
      throw new TenureError('TERM_EXHAUSTED', `Election "${election}" has used its last term, ${afterTerm}.`)
    }
    const lease_ttl_ms = Math.ceil(leaseDurationMs)
    const asked = { node_id: holder, attempt, lease_ttl_ms, after_term: afterTerm, metadata, write_id: writeId }
    return this.#post(election, 'campaign', asked, call, ({ body }) => {
      const { is_leader: won, leader } = body
      if (won === false) return refusalOf(election, body)
      if (won === true) return granted(ownRecordOf({ election, holder, attempt }, leader, false), claim)
      throw new MalformedResponse('"is_leader" is not a boolean')
    })
  }

  renew(claim: HeldClaim, call: CallOptions): Promise<Outcome> {
    const { checkpoint, leaseDurationMs } = claim
    const asked = {
      ...heldOf(claim),
      extend_by_ms: Math.ceil(leaseDurationMs),
      ...(checkpoint !== undefined && { checkpoint }),
    }
    return this.#post(claim.election, 'renew', asked, call, (reply) => heldOutcome(reply, claim, false))
  }

  async release(claim: HeldClaim, call: CallOptions): Promise<Outcome> {
    try {
      return await this.#release(claim, call)
    } catch (error) {
      // A service of an earlier version refuses the field. The lease must be released all the same.
      if (claim.successor === undefined || !isTenureError(error) || error.code !== 'INVALID_REQUEST') throw error
      return this.#release({ ...claim, successor: undefined }, call)
    }
  }

  #release(claim: HeldClaim, call: CallOptions): Promise<Outcome> {
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
      const failure =
        error instanceof MalformedResponse ? malformedResponse('The election service', error.message, 200) : error
      if (!signal.aborted) this.#holdWatches(failure)
      throw failure
    }
  }

  async list(options: ListOptions, call: CallOptions): Promise<ListPage> {
    const { after, limit } = pageOf(options)
    // The service lists at most 999 groups per page.
    const asked = { limit: String(Math.min(limit, 999)), ...(after !== undefined && { after }) }
    const request = { method: 'GET', path: `/v1/groups?${new URLSearchParams(asked).toString()}` } as const
    return this.#cluster.call(request, call, ({ body: { groups, next } }) => {
      if (!Array.isArray(groups)) throw new MalformedResponse('it contains no list of groups')
      return listPage(groups, typeof next === 'string' ? next : undefined, listedRecord)
    })
  }

  async close(): Promise<void> {
    this.#watches.close()
    this.#cluster.close()
  }

  request(...[request, call]: Parameters<ServiceStore['request']>): Promise<ServiceReply['body']> {
    return this.#cluster.call(request, call, ({ body }) => body, [200, 201])
  }

  #post(
    election: string,
    verb: string,
    body: unknown,
    call: CallOptions,
    take: (reply: ServiceReply) => Outcome,
  ): Promise<Outcome> {
    return this.#cluster.call({ method: 'POST', path: pathOf(election, verb), body }, call, take)
  }

  /**
   * Yields the current state, then each change. Resumes after an interruption. `holder` names a candidate, so that the
   * service shows it as present.
   */
  async *#follow(election: string, signal: AbortSignal, holder: string | undefined): Records {
    const name = holder === undefined ? '' : `&node_id=${encodeURIComponent(holder)}`
    let shown: string | undefined
    let cursor: string | undefined
    for (;;) {
      const openedMs = this.#clock.monotonicMs()
      // A resumed stream begins with the events that were missed, possibly none.
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
        // The service does not know the cursor, for example after a restored backup. Start from the current state
        // instead.
        const isRefused = error instanceof AnswerError && error.code === 'INVALID_REQUEST'
        if (isRefused && cursor !== undefined) {
          cursor = undefined
          continue
        }
        if (!isTenureError(error) || !error.retryable || !worked()) throw error
      }
      await pause(this.#clock, this.#clock.random() * spreadMs, signal)
      signal.throwIfAborted()
    }
  }

  /** Suspends watches for a while. Standbys poll in the meantime. */
  #holdWatches(error: unknown): void {
    if (!(error instanceof AnswerError)) return
    const holdMs = error.retryAfterMs ?? (error.status === 200 ? longestHoldMs : 0)
    this.#noWatchUntilMs = this.#clock.monotonicMs() + Math.min(holdMs, longestHoldMs)
  }
}

/** The state that an event contains. Undefined if the event is not about the state of this election. */
function stateIn(
  election: string,
  event: Readonly<Record<string, unknown>>,
): { readonly record: LeaseRecord | undefined } | undefined {
  if (event['group_id'] !== groupOf(election)) return undefined
  switch (event['type']) {
    case 'STATE':
      return groupStateOf(election, event)
    case 'LEADER_CHANGED':
    case 'RENEWED':
      return { record: recordOf(election, event['leader'], false) }
    case 'LEADER_LOST': {
      if (event['reason'] === 'deleted') return { record: undefined }
      const record = recordOf(election, event['previous_leader'], true)
      return { record: event['reason'] === 'expired' ? { ...record, expired: true } : record }
    }
    default:
      return undefined
  }
}

/** The record of a listed group. Undefined for a group that was defined but has never had a leader. */
function listedRecord(group: unknown): LeaseRecord | undefined {
  if (!isObject(group) || typeof group['group_id'] !== 'string')
    throw new MalformedResponse('a group has no "group_id"')
  const { group_id: election, leader, previous_leader: previous } = group
  const held = leader !== null
  if (!held && previous === undefined) return undefined
  if (groupOf(election) === election) return recordOf(election, held ? leader : previous, !held)
  throw new MalformedResponse(`group "${election}" has only the hash of its election's name`)
}

function heldOutcome({ refused, body }: ServiceReply, claim: HeldClaim, released: boolean): Outcome {
  if (refused) return refusalOf(claim.election, body, 'current_leader')
  return granted(ownRecordOf(claim, body['leader'], released), claim)
}

function heldOf({ holder, attempt, term, version, writeId, successor }: HeldClaim) {
  return { node_id: holder, attempt, term, version, write_id: writeId, successor }
}

function groupOf(election: string): string {
  return encodeName(election, plainGroup)
}

function pathOf(election: string, what: string): string {
  return `/v1/groups/${encodeURIComponent(groupOf(election))}/${what}`
}
