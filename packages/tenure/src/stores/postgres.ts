/**
 * Elections in PostgreSQL: one row each, beside it the highest term, and a sequence for the versions.
 *
 * @module
 */
import { messageOf } from '@tenure/internal/message'
import { lockMsWithin } from '@tenure/internal/postgres-waits'
import { systemClock, type Clock } from '../clock.ts'
import { invalidOption, show, TenureError } from '../errors.ts'
import { Bound } from '../http/bound.ts'
import type { CallOptions, LeaseRecord, LeaseStore, ListPage } from '../lease-store.ts'
import { checkBoolean, checkClock } from '../options.ts'
import { checkOptions, type OptionNames } from '../options/check-options.ts'
import { withBound } from './bounded.ts'
import type { Finding, InspectableStore } from './finding.ts'
import { listPage, type Page } from './list.ts'
import { checkClient, runOn, type PostgresClient, type PostgresRow, type Run } from './postgres/client.ts'
import { bySchema, failureOf, isForbidden, isLockedOut, isMissingTable, isOvertaken } from './postgres/failures.ts'
import { findingsOf, inspection } from './postgres/inspection.ts'
import { Mailbox } from './postgres/mailbox.ts'
import { namesOf, type TableNames } from './postgres/names.ts'
import { creation, defaultTable, tableFormat } from './postgres/schema.ts'
import { connection, everything, Session, type PostgresConnection } from './postgres/session.ts'
import { prepared, statementsFor, type Statement, type Statements } from './postgres/statements.ts'
import { counterOf, uniqueIn, versionOf } from './postgres/version.ts'
import { encodeRecord, recordOf, unusable } from './record.ts'
import type { Current, Draft } from './rules.ts'
import { silenceOf } from './silence.ts'
import { swapStore, type Swapped, type SwapServer } from './swap.ts'

export type { Finding } from './finding.ts'
export type {
  PostgresClient,
  PostgresQueryClient,
  PostgresRow,
  PostgresRows,
  PostgresSqlClient,
} from './postgres/client.ts'
// What the election service keeps its data with; no candidate needs it.
export { openPostgresStatements, type PostgresStatements } from './postgres/run-statements.ts'
export { postgresSchema, type PostgresSchemaOptions } from './postgres/schema.ts'
export type { PostgresConnection, PostgresListeningSql, PostgresNotifyingClient } from './postgres/session.ts'

/** What {@link postgresStore} takes: `client`, `connect`, or both. */
export interface PostgresStoreOptions {
  /** A `Pool` or `Client` of `pg`, the `sql` of `postgres`, or anything with `query(text, values)`. */
  readonly client?: PostgresClient | undefined
  /**
   * Opens a connection for this store alone. With it changes are notified, and no renewal waits for a pool that is
   * drained. Without it standbys poll.
   */
  readonly connect?: (() => PromiseLike<PostgresConnection>) | undefined
  /** Where the records are kept: `table`, which is in schema `public`, or `schema.table`. Default: `tenure_leases`. */
  readonly table?: string | undefined
  /** Whether a claim creates missing tables; reading never does. Default: true. `postgresSchema()` gives the statements for a migration. */
  readonly createTable?: boolean | undefined
  /**
   * Let the server's clock judge that a lease ran out, for a faster first take-over after a start. A clock that is set
   * forward while somebody leads then makes two leaders. Default: false, the candidates observe.
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

/** How often a watch looks for tables that nobody has created yet. */
const absentMs = 1_000

/**
 * Keeps elections in PostgreSQL 13 or newer, through the client that a program has already.
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
  const session = connect && new Session(() => connection(connect, client), clock)
  const run = session ? session.run : runOn(client as PostgresClient)
  const server = new PostgresServer({ run, session, clock, names: namesOf(table), createTable, trustServerClock })
  return { ...swapStore(server, clock), inspect: (call) => server.inspect(call) }
}

interface Parts {
  readonly run: Run
  readonly session: Session | undefined
  readonly clock: Clock
  readonly names: TableNames
  readonly createTable: boolean
  readonly trustServerClock: boolean
}

/** The highest term as it is kept beside the record, and the duration of its lease. */
interface Kept {
  readonly term: number
  readonly leaseMs: number
}

interface Found extends Current {
  /** Undefined even where there is one, if a notification showed the record alone. */
  readonly kept: Kept | undefined
}

class PostgresServer implements SwapServer<Found> {
  readonly expiry: LeaseStore['expiry']
  readonly nothing: Found = { record: undefined, highestTerm: 0, remainingMs: undefined, kept: undefined }
  readonly watch?: NonNullable<SwapServer<Found>['watch']>
  readonly #parts: Parts
  readonly #statements: Statements
  #channel: string | undefined
  /**
   * Elections for which a write has no answer that stands. Where the server waits for a standby, such a write may be there
   * and lost by a failover: its record proves a grant only once something that was written after it is confirmed.
   */
  readonly #unsettled = new Set<string>()
  /** Watches that wait for the tables. */
  readonly #onCreated = new Set<() => void>()

  constructor(parts: Parts) {
    this.#parts = parts
    this.#statements = statementsFor(parts.names)
    this.expiry = parts.trustServerClock ? 'own-clock' : 'observed'
    const { session } = parts
    if (session) this.watch = (election, call) => this.#watch(session, election, call)
  }

  find(election: string, call: CallOptions): Promise<Found> {
    return this.#bounded(call, async (bound) => {
      if ((await this.#look(bound)) === undefined) return this.nothing
      for (;;) {
        const found = this.#foundOf(election, await this.#find(election, bound))
        if (!found.record || !this.#unsettled.has(election)) return found
        if (await this.#confirm(found.record, bound)) return found
      }
    })
  }

  async swap(election: string, over: Found, draft: Draft, call: CallOptions): Promise<Swapped<Found>> {
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
        if (!isLockedOut(error)) this.#unsettled.add(election)
        throw error
      }
    })
  }

  remove(election: string, over: Found, withTerm: boolean, call: CallOptions): Promise<boolean> {
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

  /** What is wrong with the server's settings. */
  inspect(call: CallOptions): Promise<readonly Finding[]> {
    return this.#bounded(call, async (bound) => {
      const [row] = await this.#parts.run(prepared(inspection), [], bound)
      return findingsOf(row ?? {}, await this.#parts.session?.backend(bound))
    })
  }

  async close(): Promise<void> {
    await this.#parts.session?.close()
  }

  async *#watch(session: Session, election: string, call: CallOptions): AsyncGenerator<Found, void, undefined> {
    const { clock } = this.#parts
    const mailbox = new Mailbox(election)
    const lookAgain = () => mailbox.put(everything)
    const bound = new Bound(call.signal)
    const look = { signal: call.signal, timeoutMs: lookMs }
    let end = (): void => undefined
    try {
      if (call.signal.aborted) return
      bound.onEnd(() => mailbox.put(undefined))
      this.#onCreated.add(lookAgain)
      const findChannel = () => this.#bounded(look, (within) => this.#look(within))
      let channel = await findChannel()
      const wasMissing = channel === undefined
      if (wasMissing) yield this.nothing
      while (channel === undefined) {
        if ((await mailbox.next(absentMs, clock)) === 'closed') return
        channel = await findChannel()
      }
      const known = channel
      end = await this.#bounded(look, (within) => session.listen(known, (payload) => mailbox.put(payload), within))
      let found = await this.find(election, look)
      if (!wasMissing || found.record) yield found
      // Tables that were dropped and created again have a new channel: then another watch has to begin.
      while (this.#channel === channel) {
        const news = await mailbox.next(silenceOf(found.record), clock)
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

  /** What a notification shows. How long a lease still lasts on the server it cannot. */
  #heard(election: string, { version, text }: { version: string; text: string }): Found {
    const record = recordOf(election, text, versionOf(version, text))
    const remainingMs = this.#parts.trustServerClock ? (record.released ? 0 : record.leaseDurationMs) : undefined
    return { record, highestTerm: record.term, remainingMs, kept: undefined }
  }

  #statementFor({ record, kept }: Found, draft: Draft): Statement {
    const { renew, take, first, again } = this.#statements
    if (!record) return kept ? again : first
    const stays = kept?.term === draft.term && kept.leaseMs === draft.leaseDurationMs
    return stays && !this.#parts.trustServerClock ? renew : take
  }

  async #find(election: string, bound: Bound): Promise<PostgresRow> {
    const [row] = await this.#run(this.#statements.find, { election }, bound, ([found]) => {
      if (!found) throw new TenureError('RECORD_INVALID', 'PostgreSQL gave no row where it always gives one.')
      if (found['replica'] !== 'false') throw isReplica()
      if (found['sync'] === 'off') throw isNotDurable()
    })
    // Another one if somebody dropped the tables and somebody else made new ones.
    const isThere = row?.['channel'] !== null && row?.['channel'] !== undefined
    this.#channel = isThere ? channelIn(row, this.#parts.names) : undefined
    return row ?? {}
  }

  /** False: something else is there by now. */
  async #confirm({ election, version }: LeaseRecord, bound: Bound): Promise<boolean> {
    const seen = { election, version: counterOf(version), unique: uniqueIn(version) }
    const isConfirmed = (await this.#run(this.#statements.confirm, seen, bound)).length === 1
    if (isConfirmed) this.#unsettled.delete(election)
    return isConfirmed
  }

  #foundOf(election: string, row: PostgresRow): Found {
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

  /** Before anything is written: creates what is missing. Gives the channel. */
  async #prepared(bound: Bound): Promise<string> {
    this.#channel ??= (await this.#lookNow(bound)) ?? (await this.#create(bound))
    return this.#channel
  }

  /** Before anything is read: gives the channel, or undefined where there are no records yet. */
  async #look(bound: Bound): Promise<string | undefined> {
    let channel = this.#channel ?? (await this.#lookNow(bound))
    if (channel === undefined && (await this.#exists(bound))) {
      // All are created in one step: since the first look, or something is missing that was there.
      channel = await this.#lookNow(bound)
      // Where only another table is missing, nobody can say that nobody leads.
      if (channel === undefined) throw isIncomplete(this.#parts.names.table)
    }
    // Meanwhile another call may have created them.
    return (this.#channel ??= channel)
  }

  async #exists(bound: Bound): Promise<boolean> {
    const [row] = await this.#parts.run(this.#statements.exists, [], bound)
    return row?.['exists'] !== 'false'
  }

  /** The channel, or undefined where something is missing that may be created. */
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
      throw isForbidden(error) ? mayNotCreate(names, error) : error
    }
    const channel = await this.#lookNow(bound)
    if (channel === undefined) throw isIncomplete(names.table)
    for (const lookAgain of this.#onCreated) lookAgain()
    return channel
  }

  /** A call within its own deadline, whatever the client does, and with errors in our words. */
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
 * How long a statement may wait for a lock. Only the candidates of one election write its row, each for one flush, so a
 * lock that lasts longer than a second is that of a commit that hangs. While it does, each retry would add a backend.
 */
function lockMsOf({ leftMs }: Bound): number {
  return Math.min(lockMsWithin(leftMs?.()), longestLockMs)
}

/** How a lease was judged on the server's clock, which looks again when it writes. */
function judgedAs({ record, remainingMs }: Found): 'held' | 'over' | 'free' {
  if (remainingMs === undefined || record?.released) return 'free'
  return remainingMs > 0 ? 'held' : 'over'
}

/** Versions of one election rise: what was notified before a newer one was read is not news. */
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
  if (Number.isSafeInteger(kept.term) && kept.leaseMs > 0) return kept
  throw unusable(election, `the highest term kept beside it is ${show(term)}, of a lease of ${show(leaseMs)} ms`)
}

/** Checked, because it is written into a statement: the owner of the tables must not run statements as those who use them. */
function channelIn({ channel }: PostgresRow, { table }: TableNames): string {
  if (typeof channel === 'string' && /^tenure_[0-9a-f]{32}$/.test(channel)) return channel
  const text = `The channel that is kept beside the table "${table}" is ${show(channel)}, which Tenure did not write. Delete the row of "${table}_meta".`
  throw new TenureError('RECORD_INVALID', text)
}

function isReplica(): TenureError {
  const text =
    'This PostgreSQL is a replica, which may lag behind. Connect to the primary (target_session_attrs=read-write).'
  return new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true })
}

function isNotDurable(): TenureError {
  const text =
    'synchronous_commit is off for this connection: PostgreSQL could forget a lease that it has granted. Turn it on, for this role alone perhaps: alter role ... set synchronous_commit = on.'
  return new TenureError('UNSAFE_SETTINGS', text)
}

function isTooOld(server: unknown): TenureError {
  return new TenureError(
    'BACKEND_UNAVAILABLE',
    `This store needs PostgreSQL 13 or newer, and this one says that it is ${String(server)}.`,
  )
}

function mayNotCreate({ table, schema }: TableNames, cause: unknown): TenureError {
  const details = bySchema('{ role }', 'statements that create it and let the role use it')
  const text = `The table "${table}", or one beside it, does not exist, and the role may not create it in schema "${schema}": ${messageOf(cause)}. ${details.advice}. Or name a schema of the role's own with the option "table" (in a URL: ?table=SCHEMA.NAME).`
  return new TenureError('UNAUTHORIZED', text, { cause, ...details })
}

function isIncomplete(table: string): TenureError {
  const details = bySchema('', 'statements that do so too')
  const text = `One of the tables beside "${table}" is missing, or is empty and must not be. A claim completes them, unless "createTable" is false. ${details.advice}.`
  return new TenureError('NOT_FOUND', text, { retryable: true, ...details })
}

function isOtherFormat(table: string, format: unknown): TenureError {
  const text = `The table "${table}" has format ${String(format)}, and this version reads format ${tableFormat}. Use the version of Tenure that wrote it, or another table with all candidates at once.`
  return new TenureError('RECORD_INVALID', text)
}
