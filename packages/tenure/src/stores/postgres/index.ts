/**
 * Keeps elections in PostgreSQL: one row per election, another row with its highest term, and a sequence for versions.
 *
 * @module
 */
import { messageOf } from '@tenure/internal/message'
import { lockMsWithin } from '@tenure/internal/postgres-waits'
import { systemClock, type Clock } from '../../common/clock.ts'
import { invalidOption, show, TenureError } from '../../common/errors.ts'
import { Bound } from '@tenure/internal/bound'
import { isLeaseDuration, isTerm } from '@tenure/internal/field-reader'
import type { CallOptions, LeaseRecord, LeaseStore, ListPage } from '../../engine/lease-store.ts'
import { ownCheckpointLimitBytes, checkBoolean, checkClock } from '../../engine/check-values.ts'
import { checkOptions, type OptionNames } from '../../common/check-options.ts'
import { withBound } from '../../store-kit/call-deadline.ts'
import type { Finding, InspectableStore } from '../../store-kit/diagnostics.ts'
import { listPage, type Page } from '../../store-kit/list.ts'
import { checkClient, runOn, type PostgresClient, type PostgresRow, type Run } from './client.ts'
import { schemaAdvice, failureOf, isPermissionDenied, isLockTimeout, isMissingTable, isOvertaken } from './failures.ts'
import { findingsOf, inspection } from './diagnostics.ts'
import { LatestNotification } from './latest-notification.ts'
import { namesOf, type TableNames } from './names.ts'
import { creation, defaultTable, tableFormat } from './schema.ts'
import { connection, readAllPayload, PostgresSession, type PostgresListenClient } from './session.ts'
import { prepared, statementsFor, type Statement, type Statements } from './statements.ts'
import { counterOf, uniqueIn, versionOf } from './version.ts'
import { encodeRecord, recordOf, unusable } from '../../store-kit/record.ts'
import type { Current, RecordDraft } from '../../store-kit/rules.ts'
import { watchTimeoutMs } from '../../store-kit/watch-timeout.ts'
import { swapStore, type SwapOutcome, type SwapServer } from '../../store-kit/compare-and-swap-store.ts'

export type { InspectableStore } from '../../store-kit/diagnostics.ts'
export type { PostgresClient, PostgresQueryClient, PostgresRow, PostgresRows, PostgresSqlClient } from './client.ts'
export { postgresSchema, type PostgresSchemaOptions } from './schema.ts'
export type { PostgresListenClient, PostgresListeningSql, PostgresNotifyingClient } from './session.ts'

/** Options of {@link postgresStore}. `client`, `connect`, or both are required. */
export interface PostgresStoreOptions {
  /** A `Pool` or `Client` of `pg`, the `sql` of `postgres`, or anything with `query(text, values)`. */
  readonly client?: PostgresClient | undefined
  /**
   * Opens a connection for this store alone. With it, the store receives notifications, and no renewal waits for an
   * exhausted pool. Without it, standbys poll.
   */
  readonly connect?: (() => PromiseLike<PostgresListenClient>) | undefined
  /** The table for the records: `table`, which is in schema `public`, or `schema.table`. Default: `tenure_leases`. */
  readonly table?: string | undefined
  /**
   * Whether a claim creates missing tables. Reads never do. Default: true. `postgresSchema()` returns the statements
   * for a migration.
   */
  readonly createTable?: boolean | undefined
  /**
   * Lets the server's clock decide whether a lease has expired, for a faster first takeover after a start. If that
   * clock is then set forward while a candidate leads, two candidates lead at once. Default: false. The candidates then
   * observe expiry.
   */
  readonly trustServerClock?: boolean | undefined
  readonly clock?: Clock | undefined
}

const names: OptionNames<PostgresStoreOptions> = {
  client: true,
  connect: true,
  table: true,
  createTable: true,
  trustServerClock: true,
  clock: true,
}

const oldestServer = 130_000

/** How long a watch waits for one answer. */
const lookMs = 10_000

const longestLockMs = 1_000

/** How often a watch checks for tables that do not exist yet. */
const absentMs = 1_000

/**
 * Keeps elections in PostgreSQL 13 or newer, using a client that the program already has.
 *
 * @example
 * const pool = new Pool({ connectionString: process.env.DATABASE_URL })
 * const store = postgresStore({ client: pool, connect: () => pool.connect() })
 * await lead({ store, election: 'nightly-report' }, work)
 */
export function postgresStore(options: PostgresStoreOptions): InspectableStore {
  checkOptions('postgresStore()', options, names)
  const { client, connect, table = defaultTable, createTable = true, trustServerClock = false } = options
  checkClock(options.clock)
  checkBoolean('createTable', createTable)
  checkBoolean('trustServerClock', trustServerClock)
  if (connect !== undefined && typeof connect !== 'function') {
    throw invalidOption('connect', connect, 'it must be a function that opens a connection')
  }
  if (client !== undefined || connect === undefined) checkClient(client)
  const { clock = systemClock } = options
  const session = connect && new PostgresSession(() => connection(connect, client), clock)
  const run = session ? session.run : runOn(client as PostgresClient)
  const server = new PostgresServer({ run, session, clock, names: namesOf(table), createTable, trustServerClock })
  return { ...swapStore(server, clock), inspect: (call) => server.inspect(call) }
}

interface PostgresParts {
  readonly run: Run
  readonly session: PostgresSession | undefined
  readonly clock: Clock
  readonly names: TableNames
  readonly createTable: boolean
  readonly trustServerClock: boolean
}

/** The term record: the highest term and the duration of its lease. */
interface Kept {
  readonly term: number
  readonly leaseMs: number
}

interface FoundRow extends Current {
  /** Undefined if the state comes from a notification, which contains only the record. */
  readonly kept: Kept | undefined
}

class PostgresServer implements SwapServer<FoundRow> {
  readonly expiry: LeaseStore['expiry']
  readonly checkpointLimitBytes = ownCheckpointLimitBytes
  readonly keepsTerms = true
  readonly nothing: FoundRow = { record: undefined, highestTerm: 0, remainingMs: undefined, kept: undefined }
  readonly watch?: NonNullable<SwapServer<FoundRow>['watch']>
  readonly #parts: PostgresParts
  readonly #statements: Statements
  #channel: string | undefined
  /**
   * Elections with a write whose outcome is not confirmed. If the server waits for a standby, such a write may be
   * visible and still be lost in a failover. Its record proves a grant only once a later write is confirmed.
   */
  readonly #unsettled = new Set<string>()
  /** Watches that wait for the tables. */
  readonly #onCreated = new Set<() => void>()

  constructor(parts: PostgresParts) {
    this.#parts = parts
    this.#statements = statementsFor(parts.names)
    this.expiry = parts.trustServerClock ? 'own-clock' : 'observed'
    const { session } = parts
    if (session) this.watch = (election, call) => this.#watch(session, election, call)
  }

  find(election: string, call: CallOptions): Promise<FoundRow> {
    return this.#bounded(call, async (bound) => {
      if ((await this.#look(bound)) === undefined) return this.nothing
      for (;;) {
        const found = this.#foundOf(election, await this.#find(election, bound))
        if (!found.record || !this.#unsettled.has(election)) return found
        if (await this.#confirm(found.record, bound)) return found
      }
    })
  }

  async swap(election: string, over: FoundRow, draft: RecordDraft, call: CallOptions): Promise<SwapOutcome<FoundRow>> {
    const { clock, trustServerClock } = this.#parts
    const leaseMs = draft.leaseDurationMs
    const text = encodeRecord(draft, () => clock.randomId())
    const values = {
      election,
      record: text,
      version: over.record && counterOf(over.record.version),
      unique: over.record && uniqueIn(over.record.version),
      term: draft.term,
      highestTerm: over.highestTerm,
      leaseMs,
      endsInMs: draft.released ? 0 : leaseMs,
      judged: trustServerClock ? judgedAs(over) : 'unjudged',
    }
    return this.#bounded(call, async (bound) => {
      try {
        const [row] = await this.#run(this.#statementFor(over, draft), values, bound)
        if (!row) return { ok: false }
        const record = { ...draft, version: versionOf(String(row['version']), text) }
        const highestTerm = Math.max(over.highestTerm, draft.term)
        const remainingMs = trustServerClock ? values.endsInMs : undefined
        const kept = { term: highestTerm, leaseMs }
        this.#unsettled.delete(election)
        return { ok: true, found: { record, highestTerm, remainingMs, lastDurationMs: leaseMs, kept } }
      } catch (error) {
        if (isOvertaken(error)) return { ok: false }
        if (!isLockTimeout(error)) this.#unsettled.add(election)
        throw error
      }
    })
  }

  remove(election: string, over: FoundRow, withTerm: boolean, call: CallOptions): Promise<boolean> {
    const { forget, forgetTerm } = this.#statements
    const { version = '' } = over.record ?? {}
    const seen = { election, version: counterOf(version), unique: uniqueIn(version), highestTerm: over.highestTerm }
    return this.#bounded(call, async (bound) => {
      return (await this.#run(withTerm ? forgetTerm : forget, seen, bound)).length === 1
    })
  }

  list({ after, limit }: Page, call: CallOptions): Promise<ListPage> {
    return this.#bounded(call, async (bound) => {
      if ((await this.#look(bound)) === undefined) return { records: [] }
      const rows = await this.#run(this.#statements.list, { after: after ?? '', limit: limit + 1 }, bound)
      const next = rows.length > limit ? String(rows[limit - 1]?.['election']) : undefined
      return listPage(rows.slice(0, limit), next, (row) => recordIn(String(row['election']), row))
    })
  }

  /** Problems with the server's settings. */
  inspect(call: CallOptions): Promise<readonly Finding[]> {
    return this.#bounded(call, async (bound) => {
      const [row] = await this.#parts.run(prepared(inspection), [], bound)
      return findingsOf(row ?? {}, await this.#parts.session?.backend(bound))
    })
  }

  async close(): Promise<void> {
    await this.#parts.session?.close()
  }

  async *#watch(
    session: PostgresSession,
    election: string,
    call: CallOptions,
  ): AsyncGenerator<FoundRow, void, undefined> {
    const { clock } = this.#parts
    const notifications = new LatestNotification(election)
    const lookAgain = () => notifications.put(readAllPayload)
    const bound = new Bound(call.signal)
    const look = { signal: call.signal, timeoutMs: lookMs }
    let end = (): void => undefined
    try {
      if (call.signal.aborted) return
      bound.onEnd(() => notifications.put(undefined))
      this.#onCreated.add(lookAgain)
      const findChannel = () => this.#bounded(look, (within) => this.#look(within))
      let channel = await findChannel()
      const wasMissing = channel === undefined
      if (wasMissing) yield this.nothing
      while (channel === undefined) {
        if ((await notifications.next(absentMs, clock)) === 'closed') return
        channel = await findChannel()
      }
      const known = channel
      end = await this.#bounded(look, (within) =>
        session.listen(known, (payload) => notifications.put(payload), within),
      )
      let found = await this.find(election, look)
      if (!wasMissing || found.record) yield found
      // Tables that were dropped and recreated have a new channel. The watch then ends, so that a new one begins.
      while (this.#channel === channel) {
        const news = await notifications.next(watchTimeoutMs(found.record), clock)
        if (news === 'closed') return
        const isRead = news === 'look'
        const seen = isRead ? await this.find(election, look) : this.#heard(election, news)
        const isNews = isRead ? seen.record?.version !== found.record?.version : isLater(seen.record, found.record)
        if (!isNews) continue
        found = seen
        yield found
      }
    } catch (error) {
      if (call.signal.aborted) return
      throw error
    } finally {
      bound.forget()
      this.#onCreated.delete(lookAgain)
      end()
    }
  }

  /** The state that a notification contains. It cannot show the time left on the lease by the server's clock. */
  #heard(election: string, { version, text }: { version: string; text: string }): FoundRow {
    const record = recordOf(election, text, versionOf(version, text))
    const remainingMs = this.#parts.trustServerClock ? (record.released ? 0 : record.leaseDurationMs) : undefined
    return { record, highestTerm: record.term, remainingMs, kept: undefined }
  }

  #statementFor({ record, kept }: FoundRow, draft: RecordDraft): Statement {
    const { renew, take, first, again } = this.#statements
    if (!record) return kept ? again : first
    const stays = kept?.term === draft.term && kept.leaseMs === draft.leaseDurationMs
    return stays && !this.#parts.trustServerClock ? renew : take
  }

  async #find(election: string, bound: Bound): Promise<PostgresRow> {
    const [row] = await this.#run(this.#statements.find, { election }, bound, ([found]) => {
      if (!found)
        throw new TenureError('RECORD_INVALID', 'PostgreSQL returned no row for a query that always returns one.')
      if (found['replica'] !== 'false') throw isReplica()
      if (found['sync'] === 'off') throw isNotDurable()
    })
    // The channel changes if someone dropped the tables and they were recreated.
    const isThere = row?.['channel'] !== null && row?.['channel'] !== undefined
    this.#channel = isThere ? channelIn(row, this.#parts.names) : undefined
    return row ?? {}
  }

  /** Confirms a record that was read. False if the record has changed in the meantime. */
  async #confirm({ election, version }: LeaseRecord, bound: Bound): Promise<boolean> {
    const seen = { election, version: counterOf(version), unique: uniqueIn(version) }
    const isConfirmed = (await this.#run(this.#statements.confirm, seen, bound)).length === 1
    if (isConfirmed) this.#unsettled.delete(election)
    return isConfirmed
  }

  #foundOf(election: string, row: PostgresRow): FoundRow {
    const record = typeof row['version'] === 'string' ? recordIn(election, row) : undefined
    const kept = keptIn(election, row)
    const highestTerm = Math.max(record?.term ?? 0, kept?.term ?? 0)
    const remaining = row['remaining']
    const isKnown = this.#parts.trustServerClock && typeof remaining === 'string'
    const remainingMs = isKnown ? (record?.released ? 0 : Number(remaining)) : undefined
    return { record, highestTerm, remainingMs, lastDurationMs: kept?.leaseMs, kept }
  }

  async #run(
    statement: Statement,
    values: Readonly<Record<string, string | number | undefined>>,
    bound: Bound,
    check?: (rows: readonly PostgresRow[]) => void,
  ): Promise<readonly PostgresRow[]> {
    const channel = this.#channel ?? (await this.#prepared(bound))
    const known: typeof values = { ...values, channel, lockMs: lockMsOf(bound) }
    try {
      const given = statement.parameters.map((name) => (known[name] === undefined ? null : String(known[name])))
      return await this.#parts.run(statement, given, bound, check)
    } catch (error) {
      if (isMissingTable(error)) this.#channel = undefined
      throw error
    }
  }

  /** Call before a write. Creates missing tables and returns the channel. */
  async #prepared(bound: Bound): Promise<string> {
    this.#channel ??= (await this.#lookNow(bound)) ?? (await this.#create(bound))
    return this.#channel
  }

  /** Call before a read. Returns the channel, or undefined if there are no tables yet. */
  async #look(bound: Bound): Promise<string | undefined> {
    let channel = this.#channel ?? (await this.#lookNow(bound))
    if (channel === undefined && (await this.#exists(bound))) {
      // All tables are created in one step. So either they were created since the first check, or one of them was
      // dropped.
      channel = await this.#lookNow(bound)
      // If only another table is missing, the store cannot know whether the election has a leader.
      if (channel === undefined) throw isIncomplete(this.#parts.names.table)
    }
    // Another call may have created the tables in the meantime.
    return (this.#channel ??= channel)
  }

  async #exists(bound: Bound): Promise<boolean> {
    const [row] = await this.#parts.run(this.#statements.exists, [], bound)
    return row?.['exists'] !== 'false'
  }

  /** Returns the channel, or undefined if something is missing that may be created. */
  async #lookNow(bound: Bound): Promise<string | undefined> {
    const { run, names, createTable } = this.#parts
    try {
      const [row] = await run(this.#statements.look, [], bound)
      const { server, format, whole } = row ?? {}
      if (!(Number(server) >= oldestServer)) throw isTooOld(server)
      const isEmpty = format === null || format === undefined
      if (!isEmpty && Number(format) !== tableFormat) throw isOtherFormat(names.table, format)
      if (row && !isEmpty && whole === 'true') return channelIn(row, names)
      if (createTable) return undefined
      throw isIncomplete(names.table)
    } catch (error) {
      if (createTable && isMissingTable(error)) return undefined
      throw error
    }
  }

  async #create(bound: Bound): Promise<string> {
    const { run, names } = this.#parts
    try {
      await run(prepared(creation(names, lockMsOf(bound))), [], bound)
    } catch (error) {
      throw isPermissionDenied(error) ? mayNotCreate(names, error) : error
    }
    const channel = await this.#lookNow(bound)
    if (channel === undefined) throw isIncomplete(names.table)
    for (const lookAgain of this.#onCreated) lookAgain()
    return channel
  }

  /** Runs a call within its own deadline, even if the client ignores it, and converts errors. */
  #bounded<T>(call: CallOptions, action: (bound: Bound) => Promise<T>): Promise<T> {
    return withBound(this.#parts.clock, 'PostgreSQL', call, async (bound) => {
      try {
        return await action(bound)
      } catch (error) {
        if (bound.ended) throw error
        throw failureOf(error, this.#parts.names.table)
      }
    })
  }
}

/**
 * How long a statement may wait for a lock. Only the candidates of one election write its row, each for one flush. So a
 * lock held for more than a second belongs to a commit that hangs, and each retry in the meantime would add a backend.
 */
function lockMsOf({ leftMs }: Bound): number {
  return Math.min(lockMsWithin(leftMs), longestLockMs)
}

/**
 * The state of a lease by the server's clock, on which the decision relies. The server checks it again when it writes.
 */
function judgedAs({ record, remainingMs }: FoundRow): 'held' | 'over' | 'free' {
  if (remainingMs === undefined || record?.released) return 'free'
  return remainingMs > 0 ? 'held' : 'over'
}

/**
 * True if a notified record is newer than the shown one. Versions of one election only rise, so an older notification
 * is ignored.
 */
function isLater(heard: LeaseRecord | undefined, shown: LeaseRecord | undefined): boolean {
  return !heard || !shown || BigInt(counterOf(heard.version)) > BigInt(counterOf(shown.version))
}

function recordIn(election: string, row: PostgresRow): LeaseRecord {
  const text = String(row['record'])
  return recordOf(election, text, versionOf(String(row['version']), text))
}

function keptIn(election: string, { term, duration: leaseMs }: PostgresRow): Kept | undefined {
  if (term === null || term === undefined) return undefined
  const kept = { term: Number(term), leaseMs: Number(leaseMs) }
  if (isTerm(kept.term, 0) && isLeaseDuration(kept.leaseMs)) return kept
  throw unusable(election, `its highest term is stored as ${show(term)} with a lease of ${show(leaseMs)} ms`)
}

/**
 * Validates the channel, because it is inserted into a statement. Otherwise the owner of the tables could run
 * statements as the roles that use them.
 */
function channelIn({ channel }: PostgresRow, { table }: TableNames): string {
  if (typeof channel === 'string' && /^tenure_[0-9a-f]{32}$/.test(channel)) return channel
  const text = `The channel in "${table}_meta" is ${show(channel)}, which Tenure did not write. Delete the row of "${table}_meta".`
  throw new TenureError('RECORD_INVALID', text)
}

function isReplica(): TenureError {
  const text =
    'This PostgreSQL is a replica, which may lag behind. Connect to the primary (target_session_attrs=read-write).'
  return new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true })
}

function isNotDurable(): TenureError {
  const text =
    'synchronous_commit is off for this connection: PostgreSQL could lose a granted lease. Turn it on, at least for this role: alter role ... set synchronous_commit = on.'
  return new TenureError('UNSAFE_SETTINGS', text)
}

function isTooOld(server: unknown): TenureError {
  return new TenureError(
    'BACKEND_UNAVAILABLE',
    `This store needs PostgreSQL 13 or newer, but this server reports version ${String(server)}.`,
  )
}

function mayNotCreate({ table, schema }: TableNames, cause: unknown): TenureError {
  const details = schemaAdvice('{ role }', 'statements that create it and grant the role access')
  const text = `The table "${table}", or one of its companion tables, does not exist, and the role may not create it in schema "${schema}": ${messageOf(cause)}. ${details.advice}. Alternatively, use a schema that the role owns, with the option "table" (in a URL: ?table=SCHEMA.NAME).`
  return new TenureError('UNAUTHORIZED', text, { cause, ...details })
}

function isIncomplete(table: string): TenureError {
  const details = schemaAdvice('', 'statements that complete them')
  const text = `One of the companion tables of "${table}" is missing, or is empty when it must not be. A claim completes them, unless "createTable" is false. ${details.advice}.`
  return new TenureError('NOT_FOUND', text, { retryable: true, ...details })
}

function isOtherFormat(table: string, format: unknown): TenureError {
  const text = `The table "${table}" has format ${String(format)}, but this version reads only format ${tableFormat}. Use the version of Tenure that wrote it, or switch all candidates to another table at the same time.`
  return new TenureError('RECORD_INVALID', text)
}
