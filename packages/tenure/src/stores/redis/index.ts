/**
 * Keeps elections in Redis. Each election has two keys, the record and the highest term, and neither expires.
 *
 * @module
 */
import { systemClock, type Clock } from '../../common/clock.ts'
import { invalidOption, TenureError } from '../../common/errors.ts'
import { Bound } from '@tenure/internal/bound'
import { isLeaseDuration, isTerm } from '@tenure/internal/field-reader'
import type { CallOptions, LeaseRecord, ListPage } from '../../engine/lease-store.ts'
import { ownCheckpointLimitBytes, checkClock } from '../../engine/check-values.ts'
import { checkOptions, type OptionNames } from '../../common/check-options.ts'
import { withBound } from '../../store-kit/call-deadline.ts'
import type { Finding, InspectableStore } from '../../store-kit/diagnostics.ts'
import { listPage, type Page } from '../../store-kit/list.ts'
import { encodeRecord, readAt, recordOf, unusable } from '../../store-kit/record.ts'
import {
  checkClient,
  checkDuplicable,
  duplicateOf,
  mayChangeConnection,
  connectionOf,
  type RedisClient,
} from './client.ts'
import { RedisConnections } from './shared-connections.ts'
import { ServerCheck } from './server-checks.ts'
import { failureOf } from './failures.ts'
import { inspect } from './diagnostics.ts'
import type { RedisConnection } from './link.ts'
import { ChannelListener } from './listener.ts'
import { LatestMessage } from './latest-message.ts'
import { scanElections } from './scan.ts'
import { comparand, forgetScript, readArguments, swapScript } from './scripts.ts'
import type { Current, RecordDraft } from '../../store-kit/rules.ts'
import { watchTimeoutMs } from '../../store-kit/watch-timeout.ts'
import { swapStore, type SwapOutcome, type SwapServer } from '../../store-kit/compare-and-swap-store.ts'

export type { InspectableStore } from '../../store-kit/diagnostics.ts'
export type { IoredisClient } from './ioredis-client.ts'
export type { NodeRedisStoreClient, RedisClient } from './client.ts'

/** Options of {@link redisStore}. Either `client` or `connect` is required. */
export interface RedisStoreOptions {
  /**
   * A `Redis` or `Cluster` of `ioredis`, or a client, cluster or sentinel of `redis`. The store opens its own
   * connections with the same settings and does not use this client for calls.
   */
  readonly client?: RedisClient | undefined
  /**
   * Creates a client for each connection of the store, for example with a rotated password. The store closes the
   * client.
   */
  readonly connect?: (() => RedisClient | PromiseLike<RedisClient>) | undefined
  /** Prefix of all keys, without braces. Default: `tenure:`. */
  readonly prefix?: string | undefined
  /**
   * How many replicas must have a write before it counts (`WAIT`). A lease that fewer replicas have is not granted. If
   * this is the number of all replicas, a failover to any of them loses no lease. Not supported for clusters, nor for
   * sentinels of `redis`. Default: 0.
   */
  readonly waitForReplicas?: number | undefined
  readonly clock?: Clock | undefined
}

const names: OptionNames<RedisStoreOptions> = {
  client: true,
  connect: true,
  prefix: true,
  waitForReplicas: true,
  clock: true,
}

/** A connection without an answer for this long counts as half open. */
const heardWithinMs = 10_000

/**
 * Keeps elections in Redis 6 or newer, using a client that the program already has.
 *
 * @example
 * const store = redisStore({ client: new Redis(process.env.REDIS_URL) })
 * await lead({ store, election: 'nightly-report' }, work)
 */
export function redisStore(options: RedisStoreOptions): InspectableStore {
  checkOptions('redisStore()', options, names)
  const { client, connect, prefix = 'tenure:', waitForReplicas = 0, clock = systemClock } = options
  checkClock(options.clock)
  checkPrefix(prefix)
  if (!Number.isSafeInteger(waitForReplicas) || waitForReplicas < 0) {
    throw invalidOption('waitForReplicas', waitForReplicas, 'it must be a whole number, 0 or more')
  }
  const server = new RedisServer({ open: openerOf(client, connect, waitForReplicas), prefix, waitForReplicas, clock })
  return { ...swapStore(server, clock), inspect: (call) => server.inspect(call) }
}

function checkPrefix(prefix: unknown): void {
  const rule = 'it must be a string without braces, which would decide where a cluster keeps a key'
  if (typeof prefix !== 'string' || /[{}]/.test(prefix)) throw invalidOption('prefix', prefix, rule)
}

function openerOf(
  client: RedisClient | undefined,
  connect: RedisStoreOptions['connect'],
  waitForReplicas: number,
): () => Promise<RedisConnection> {
  if (connect !== undefined && typeof connect !== 'function') {
    throw invalidOption('connect', connect, 'it must be a function that creates a client')
  }
  if (connect && client)
    throw invalidOption('connect', connect, 'it cannot be combined with "client": set only one of them')
  const checked = (made: RedisClient) => {
    if (waitForReplicas === 0 || !mayChangeConnection(made)) return made
    const rule =
      'neither a cluster nor a sentinel of "redis" can wait on the connection that wrote: set min-replicas-to-write on the servers, or pass a client from "ioredis"'
    throw invalidOption('waitForReplicas', waitForReplicas, rule)
  }
  if (connect) {
    const used = new WeakSet<object>()
    return async () => {
      const made = await connect()
      checkClient(made)
      const rule = 'it must create a new client each time, because the store closes every client'
      if (used.has(made)) throw invalidOption('connect', connect, rule)
      used.add(made)
      const link = connectionOf(made)
      try {
        checked(made)
      } catch (error) {
        link.destroy()
        throw error
      }
      return link
    }
  }
  checkClient(client)
  checkDuplicable(client)
  checked(client)
  return async () => connectionOf(duplicateOf(client))
}

interface RedisParts {
  readonly open: () => Promise<RedisConnection>
  readonly prefix: string
  readonly waitForReplicas: number
  readonly clock: Clock
}

interface FoundKey extends Current {
  /** Text of the term key, for the next write to compare. */
  readonly term: string | undefined
  /** How many times the election was written, according to its keys. */
  readonly count: number
  /**
   * A random id that stays the same from the first write to the last. It identifies messages from other databases,
   * because all databases of a Redis server share their channels.
   */
  readonly origin: string | undefined
}

class RedisServer implements SwapServer<FoundKey> {
  readonly expiry = 'observed'
  readonly checkpointLimitBytes = ownCheckpointLimitBytes
  readonly keepsTerms = true
  readonly nothing: FoundKey = foundOf('', undefined, undefined)
  readonly #parts: RedisParts
  readonly #connections: RedisConnections
  readonly #listener: ChannelListener
  readonly #examiner: ServerCheck
  #isClosed = false

  constructor(parts: RedisParts) {
    this.#parts = parts
    const open = async () => {
      if (this.#isClosed) throw new Error('the store is closed')
      return parts.open()
    }
    this.#examiner = new ServerCheck(parts.clock)
    this.#connections = new RedisConnections(open)
    this.#listener = new ChannelListener(open)
  }

  find(election: string, call: CallOptions): Promise<FoundKey> {
    return this.#bounded(election, call, (link, bound) => this.#find(link, election, call, bound))
  }

  swap(election: string, over: FoundKey, draft: RecordDraft, call: CallOptions): Promise<SwapOutcome<FoundKey>> {
    const highestTerm = Math.max(over.highestTerm, draft.term)
    const count = over.count + 1
    // The count alone does not identify a version, because it restarts after FLUSHALL.
    const nonce = hasFreshWriteId(draft) ? draft.writeId : this.#parts.clock.randomId()
    const version = `${count}-${nonce}`
    const origin = over.origin ?? nonce
    const term = `${count} ${highestTerm} ${draft.leaseDurationMs} ${origin}`
    return this.#bounded(election, call, async (link, bound) => {
      const text = `${version} ${encodeRecord(draft, () => nonce)}`
      const places = [this.#channelOf(link, election), this.#parts.waitForReplicas]
      const args = [comparand(over.record?.version), comparand(over.term), text, term, ...places]
      const [isWritten, ...pair] = await this.#evaluate(link, election, call, args, bound)
      if (Number(isWritten) !== 1) return { ok: false, found: this.#foundOf(election, pair) }
      const record = { ...draft, version }
      const lastDurationMs = draft.leaseDurationMs
      return { ok: true, found: { record, highestTerm, remainingMs: undefined, lastDurationMs, term, count, origin } }
    })
  }

  remove(election: string, over: FoundKey, withTerm: boolean, call: CallOptions): Promise<boolean> {
    return this.#bounded(election, call, async (link, bound) => {
      const channel = this.#channelOf(link, election)
      const args = [comparand(over.record?.version), comparand(over.term), channel, withTerm ? 1 : 0]
      const [isRemoved] = await this.#evaluate(link, election, call, args, bound, forgetScript)
      return Number(isRemoved) === 1
    })
  }

  async *watch(election: string, call: CallOptions): AsyncGenerator<FoundKey, void, undefined> {
    const notifications = new LatestMessage()
    const find = () => this.find(election, { ...call, timeoutMs: heardWithinMs })
    const bound = new Bound(call.signal)
    let end = (): void => undefined
    try {
      if (call.signal.aborted) return
      bound.onEnd(() => notifications.put(undefined))
      const channelOf = (link: RedisConnection) => this.#channelOf(link, election)
      const listening = { signal: call.signal, timeoutMs: heardWithinMs }
      end = await withBound(this.#parts.clock, 'Redis', listening, (within) =>
        this.#listener.listen(channelOf, (message) => notifications.put(message), within),
      )
      let found = await find()
      yield found
      for (;;) {
        const news = await notifications.next(watchTimeoutMs(found.record), this.#parts.clock)
        if (news === 'closed') return
        const heard = news === 'silence' ? undefined : this.#heard(election, found, news.message)
        const seen = heard ?? (await find())
        if (seen.record?.version === found.record?.version) continue
        found = seen
        yield found
        // The record was written but no message arrived on this connection, so the connection no longer delivers
        // messages.
        if (news === 'silence' && found.record) return this.#listener.close()
      }
    } catch (error) {
      if (call.signal.aborted) return
      throw failureOf(error, this.#keyOf(election, 'lease'))
    } finally {
      bound.forget()
      end()
    }
  }

  list(page: Page, call: CallOptions): Promise<ListPage> {
    return this.#bounded(undefined, call, async (link, bound) => {
      const { prefix } = this.#parts
      const { names: elections, next } = await scanElections(link, prefix, page)
      const answers = await Promise.allSettled(elections.map((election) => this.#find(link, election, call, bound)))
      return listPage(answers, next, (answer) => {
        if (answer.status === 'rejected') throw failureOf(answer.reason, `${prefix}*`)
        return answer.value.record
      })
    })
  }

  /** Problems with the server's settings. */
  inspect(call: CallOptions): Promise<readonly Finding[]> {
    return this.#bounded(undefined, call, (link) => inspect(link, this.#parts))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#listener.close()
    this.#connections.close()
  }

  async #find(link: RedisConnection, election: string, call: CallOptions, bound: Bound): Promise<FoundKey> {
    const args = [...readArguments, this.#parts.waitForReplicas]
    const [, ...pair] = await this.#evaluate(link, election, call, args, bound)
    return this.#foundOf(election, pair)
  }

  async #evaluate(
    link: RedisConnection,
    election: string,
    call: CallOptions,
    args: readonly (string | number)[],
    bound: Bound,
    script = swapScript,
  ): Promise<unknown[]> {
    const keys = [this.#keyOf(election, 'lease'), this.#keyOf(election, 'term')]
    const answer = await link.evaluate(script, keys, args.map(String), bound)
    if (!Array.isArray(answer)) throw unusable(election, `Redis answered ${String(answer)} instead of a list`)
    if (this.#parts.waitForReplicas > 0) await this.#replicated(link, call)
    return answer
  }

  /** Reads wait as well. Otherwise they could show a write that a failover loses. */
  async #replicated(link: RedisConnection, { timeoutMs = 1_000 }: CallOptions): Promise<void> {
    const { waitForReplicas } = this.#parts
    const [command] = await link.nodes()
    const reached = await command?.('WAIT', String(waitForReplicas), String(Math.ceil(timeoutMs / 2)))
    if (Number(reached) >= waitForReplicas) return
    const text = `Only ${Number(reached)} of ${waitForReplicas} replicas have this write, so a failover could lose it.`
    throw new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true })
  }

  #foundOf(election: string, [record, term]: readonly unknown[]): FoundKey {
    const key = this.#keyOf(election, 'lease')
    return readAt(`the Redis key "${key}" or its term key`, 'prefix', () =>
      foundOf(election, textOf(record), textOf(term)),
    )
  }

  /** The state that a message contains. Undefined if the state must be read instead. */
  #heard(election: string, shown: FoundKey, message: string): FoundKey | undefined {
    const [record, term] = message.split('\n')
    try {
      const heard = foundOf(election, record, term)
      // The message comes from another database, or from before this Redis was emptied.
      if (heard.origin === undefined || heard.origin !== shown.origin) return undefined
      // This is an older message, which was in flight while a newer record was read.
      return heard.count > shown.count ? heard : undefined
    } catch {
      return undefined
    }
  }

  /**
   * A hash tag in braces keeps both keys of an election on one server of a cluster. Encoded names contain no braces.
   */
  #keyOf(election: string, kind: 'lease' | 'term'): string {
    return `${this.#parts.prefix}{${encodeURIComponent(election)}}:${kind}`
  }

  #channelOf(link: RedisConnection, election: string): string {
    return link.keyPrefix + this.#keyOf(election, 'lease')
  }

  /** Runs a call within its own deadline, even if the client ignores it, and converts errors. */
  async #bounded<T>(
    election: string | undefined,
    call: CallOptions,
    action: (link: RedisConnection, bound: Bound) => Promise<T>,
  ): Promise<T> {
    const place = election === undefined ? `${this.#parts.prefix}*` : this.#keyOf(election, 'lease')
    return withBound(this.#parts.clock, 'Redis', call, async (bound) => {
      try {
        return await this.#connections.use(bound, async (link) => {
          const examination = this.#examiner.examine(link, place)
          if (examination) await examination
          // The call was abandoned in the meantime.
          if (bound.ended) throw bound.reason
          return action(link, bound)
        })
      } catch (error) {
        if (bound.ended) throw error
        throw failureOf(error, place)
      }
    })
  }
}

function foundOf(election: string, recordText: string | undefined, term: string | undefined): FoundKey {
  const record = recordText === undefined ? undefined : recordIn(election, recordText)
  const kept = term === undefined ? undefined : keptIn(election, term)
  return {
    record,
    highestTerm: Math.max(record?.term ?? 0, kept?.term ?? 0),
    remainingMs: undefined,
    lastDurationMs: kept?.leaseMs,
    term,
    count: Math.max(countOf(record), kept?.count ?? 0),
    origin: kept?.origin,
  }
}

function recordIn(election: string, text: string): LeaseRecord {
  const [, version, record] = /^(\d+-\S+) (.*)$/s.exec(text) ?? []
  if (version === undefined || record === undefined) throw unusable(election, 'it does not begin with a version')
  return recordOf(election, record, version)
}

function countOf(record: LeaseRecord | undefined): number {
  return record ? Number(record.version.split('-', 1)[0]) : 0
}

function keptIn(election: string, text: string) {
  const words = text.split(' ')
  const [count = NaN, term = NaN, leaseMs = NaN] = words.map(Number)
  const isUsable = Number.isSafeInteger(count) && isTerm(term) && isLeaseDuration(leaseMs)
  if (isUsable) return { count, term, leaseMs, origin: words[3] }
  throw unusable(election, `its term key contains ${JSON.stringify(text.slice(0, 60))}`)
}

function textOf(value: unknown): string | undefined {
  // A client may be configured to return buffers.
  if (Buffer.isBuffer(value)) return value.toString()
  return typeof value === 'string' ? value : undefined
}

/**
 * The engine generates a write id for each renewal and release. The write id of an acquire is its attempt, which may be
 * sent twice and is therefore not used for a version.
 */
function hasFreshWriteId(draft: RecordDraft): draft is RecordDraft & { readonly writeId: string } {
  return draft.writeId !== draft.attempt && /^[\w-]{16,64}$/.test(draft.writeId ?? '')
}
