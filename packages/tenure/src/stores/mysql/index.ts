/**
 * Keeps elections in MySQL or MariaDB: one table, with one row for an election's record and another for its highest
 * term.
 *
 * @module
 */
import type { Bound } from '@tenure/internal/bound'
import { isLeaseDuration, isTerm } from '@tenure/internal/field-reader'
import { checkOptions, type OptionNames } from '../../common/check-options.ts'
import { systemClock, type Clock } from '../../common/clock.ts'
import { show, TenureError } from '../../common/errors.ts'
import { checkBoolean, checkClock, ownCheckpointLimitBytes } from '../../engine/check-values.ts'
import type { CallOptions, LeaseRecord, ListPage } from '../../engine/lease-store.ts'
import { withBound } from '../../store-kit/call-deadline.ts'
import { swapStore, type SwapOutcome, type SwapServer } from '../../store-kit/compare-and-swap-store.ts'
import type { Finding, InspectableStore } from '../../store-kit/diagnostics.ts'
import { listPage, type Page } from '../../store-kit/list.ts'
import { encodeRecord, recordOf, unusable } from '../../store-kit/record.ts'
import type { Current, RecordDraft } from '../../store-kit/rules.ts'
import {
  checkClient,
  runOn,
  type MysqlAnswer,
  type MysqlClient,
  type MysqlRow,
  type StatementRunner,
} from './client.ts'
import { inspect } from './diagnostics.ts'
import { failureOf, isLockTimeout, isMissingTable, isOvertaken, isPermissionDenied, schemaAdvice } from './failures.ts'
import { defaultTable, quotedTable } from './names.ts'
import { checkConnection, checkFound, checkTable, isMariaDB, settingsIn } from './settings.ts'
import {
  creation,
  idOf,
  nothing,
  settings,
  statementsFor,
  type MysqlStatement,
  type MysqlStatements,
} from './statements.ts'

export type { InspectableStore } from '../../store-kit/diagnostics.ts'
export type { MysqlCallbackClient, MysqlClient, MysqlExecutor } from './client.ts'

/** Options of {@link mysqlStore}. */
export interface MysqlStoreOptions {
  /** A pool or connection of `mysql2`, or anything with `execute(sql, values)`. The store does not close it. */
  readonly client: MysqlClient
  /** The table: `table`, which is in the connection's database, or `database.table`. Default: `tenure_leases`. */
  readonly table?: string | undefined
  /**
   * Whether a claim creates the table if it is missing. Reads never do. Default: true. `mysqlSchema()` returns the
   * statement for a migration.
   */
  readonly createTable?: boolean | undefined
  readonly clock?: Clock | undefined
}

const names: OptionNames<MysqlStoreOptions> = { client: true, table: true, createTable: true, clock: true }

/**
 * Keeps elections in MySQL 8.0 or MariaDB 10.6, or newer, using a client that the program already has.
 *
 * @example
 * const store = mysqlStore({ client: createPool(process.env.DATABASE_URL) })
 * await lead({ store, election: 'nightly-report' }, work)
 */
export function mysqlStore(options: MysqlStoreOptions): InspectableStore {
  checkOptions('mysqlStore()', options, names)
  const { client, table = defaultTable, createTable = true, clock = systemClock } = options
  checkClient(client)
  checkBoolean('createTable', createTable)
  checkClock(clock)
  const server = new MysqlServer({ run: runOn(client), clock, table, quoted: quotedTable(table), createTable })
  return { ...swapStore(server, clock), inspect: (call) => server.inspect(call) }
}

/** Options of {@link mysqlSchema}. */
export interface MysqlSchemaOptions {
  /** The table, as in the options of {@link mysqlStore}. Default: `tenure_leases`. */
  readonly table?: string | undefined
}

/**
 * Returns the statement that creates the store's table, for a migration. It can be run repeatedly.
 *
 * @example
 * console.log(mysqlSchema({ table: 'jobs.leases' }))
 */
export function mysqlSchema(options: MysqlSchemaOptions = {}): string {
  checkOptions('mysqlSchema()', options, { table: true })
  return `${creation(quotedTable(options.table ?? defaultTable))};\n`
}

interface MysqlParts {
  readonly run: StatementRunner
  readonly clock: Clock
  readonly table: string
  readonly quoted: string
  readonly createTable: boolean
}

/** The row of the highest term, with the duration of its lease. */
interface KeptTermRow {
  readonly term: number
  readonly leaseMs: number
}

interface FoundRows extends Current {
  /** The version of the record's row, even if the row has no record. Undefined if there is no row. */
  readonly rowVersion: string | undefined
  readonly kept: KeptTermRow | undefined
}

class MysqlServer implements SwapServer<FoundRows> {
  readonly expiry = 'observed'
  readonly checkpointLimitBytes = ownCheckpointLimitBytes
  readonly keepsTerms = true
  readonly nothing: FoundRows = {
    record: undefined,
    highestTerm: 0,
    remainingMs: undefined,
    rowVersion: undefined,
    kept: undefined,
  }
  readonly #parts: MysqlParts
  /** Undefined until the connection's settings are known. */
  #statements: MysqlStatements | undefined
  /** Whether the table was found and can be used. */
  #hasTable = false
  /**
   * Elections with a write whose outcome is unknown. InnoDB shows a commit shortly before its disk has it. Such a record
   * proves a grant only once a later write is durable.
   */
  readonly #unsettled = new Set<string>()

  constructor(parts: MysqlParts) {
    this.#parts = parts
  }

  find(election: string, call: CallOptions): Promise<FoundRows> {
    return this.#bounded(call, async (bound) => {
      const statements = await this.#look(bound)
      if (!this.#hasTable) return this.nothing
      for (;;) {
        const values = valuesOf(election)
        const { rows } = await this.#run(statements.find, values, bound, (answer) => checkFound(answer.rows))
        const found = foundIn(election, rows[0] ?? {})
        if (!found.record || !this.#unsettled.has(election)) return found
        const version = found.record.version
        if ((await this.#run(statements.confirm, { ...values, version }, bound)).affected === 0) continue
        this.#unsettled.delete(election)
        return found
      }
    })
  }

  swap(election: string, over: FoundRows, draft: RecordDraft, call: CallOptions): Promise<SwapOutcome<FoundRows>> {
    const { clock } = this.#parts
    const next = clock.randomId()
    const text = encodeRecord(draft, () => clock.randomId())
    const { leaseDurationMs: leaseMs } = draft
    const term = Math.max(over.highestTerm, draft.term)
    const values = { ...valuesOf(election), next, record: hexOf(text), term, leaseMs, highestTerm: over.highestTerm }
    return this.#bounded(call, async (bound) => {
      const statements = await this.#prepared(bound)
      try {
        const version = await this.#rowVersion(statements, over, values, bound)
        const statement = statementFor(statements, over, draft)
        const { affected } = await this.#run(statement, { ...values, version }, bound)
        if (affected === 0) return { ok: false }
        this.#unsettled.delete(election)
        const record = { ...draft, version: next }
        return { ok: true, found: foundOf(record, next, { term, leaseMs }) }
      } catch (error) {
        if (isOvertaken(error)) return { ok: false }
        if (!isLockTimeout(error)) this.#unsettled.add(election)
        throw error
      }
    })
  }

  remove(election: string, over: FoundRows, withTerm: boolean, call: CallOptions): Promise<boolean> {
    const { rowVersion: version, highestTerm, kept } = over
    return this.#bounded(call, async (bound) => {
      const { forget, forgetTerm } = await this.#prepared(bound)
      const values = { ...valuesOf(election), version, highestTerm }
      try {
        return (await this.#run(withTerm && kept ? forgetTerm : forget, values, bound)).affected > 0
      } catch (error) {
        if (isOvertaken(error)) return false
        throw error
      }
    })
  }

  list({ after, limit }: Page, call: CallOptions): Promise<ListPage> {
    return this.#bounded(call, async (bound) => {
      const statements = await this.#look(bound)
      if (!this.#hasTable) return { records: [] }
      const from = { after: hexOf(idOf(after ?? '', 'lease')) }
      const { rows } = await this.#run(statements.list(limit + 1), from, bound)
      const next = rows.length > limit ? electionIn(rows[limit - 1]) : undefined
      return listPage(rows.slice(0, limit), next, (row) => recordIn(electionIn(row), row))
    })
  }

  /** Problems with the server's settings. */
  inspect(call: CallOptions): Promise<readonly Finding[]> {
    return this.#bounded(call, (bound) => inspect((statement) => this.#parts.run(statement, [], bound)))
  }

  /**
   * The version of the row to overwrite. Inserts the rows that are missing, if only one of the two is. Nothing is
   * granted by that: a row without a record counts as no record.
   */
  async #rowVersion(
    { complete }: MysqlStatements,
    { rowVersion, kept, highestTerm }: FoundRows,
    values: Values,
    bound: Bound,
  ): Promise<string | undefined> {
    if ((rowVersion === undefined) === (kept === undefined)) return rowVersion
    const placeholder = this.#parts.clock.randomId()
    await this.#run(complete, { ...values, next: placeholder, term: highestTerm }, bound)
    return rowVersion ?? placeholder
  }

  async #run(
    statement: MysqlStatement,
    values: Values,
    bound: Bound,
    check?: (answer: MysqlAnswer) => void,
  ): Promise<MysqlAnswer> {
    try {
      const given = statement.parameters.map((name) => String(values[name]))
      return await this.#parts.run(statement, given, bound, check)
    } catch (error) {
      if (isMissingTable(error)) this.#hasTable = false
      throw error
    }
  }

  /** Call before a write. Creates a missing table. */
  async #prepared(bound: Bound): Promise<MysqlStatements> {
    const statements = await this.#look(bound)
    if (this.#hasTable) return statements
    const { createTable, table } = this.#parts
    if (!createTable) throw isMissing(table)
    try {
      await this.#parts.run(statements.create, [], bound)
    } catch (error) {
      throw isPermissionDenied(error) ? mayNotCreate(table, error) : error
    }
    await this.#look(bound)
    if (!this.#hasTable) throw isMissing(table)
    return statements
  }

  /** Call before a read. Afterwards it is known whether there is a table. */
  async #look(bound: Bound): Promise<MysqlStatements> {
    const { run, table, quoted } = this.#parts
    if (!this.#statements) {
      let found = new Map<string, string>()
      await run(settings, [], bound, ({ rows }) => checkConnection((found = settingsIn(rows))))
      this.#statements = statementsFor(quoted, isMariaDB(found))
    }
    const statements = this.#statements
    if (!this.#hasTable) {
      const { rows: engine } = await run(statements.engine, [], bound)
      const { rows: columns } = engine.length === 0 ? { rows: [] } : await run(statements.columns, [], bound)
      this.#hasTable = checkTable(engine, columns, table)
    }
    return statements
  }

  /** Runs a call within its own deadline, even if the client ignores it, and converts errors. */
  #bounded<T>(call: CallOptions, action: (bound: Bound) => Promise<T>): Promise<T> {
    return withBound(this.#parts.clock, 'The MySQL server', call, async (bound) => {
      try {
        return await action(bound)
      } catch (error) {
        if (bound.ended) throw error
        throw failureOf(error, this.#parts.table)
      }
    })
  }
}

type Values = Readonly<Record<string, string | number | undefined>>

function statementFor({ renew, take, first }: MysqlStatements, { rowVersion, kept }: FoundRows, draft: RecordDraft) {
  if (rowVersion === undefined && !kept) return first
  return kept?.term === draft.term && kept.leaseMs === draft.leaseDurationMs ? renew : take
}

function valuesOf(election: string) {
  return { id: hexOf(idOf(election, 'lease')), termId: hexOf(idOf(election, 'term')) }
}

function hexOf(text: string): string {
  return Buffer.from(text, 'utf8').toString('hex')
}

function textOf(hex: unknown): string {
  return Buffer.from(String(hex), 'hex').toString('utf8')
}

function electionIn(row: MysqlRow | undefined): string {
  return textOf(row?.['id']).slice(idOf('', 'lease').length)
}

function recordIn(election: string, row: MysqlRow): LeaseRecord {
  return recordOf(election, textOf(row['record']), String(row['version']))
}

function foundIn(election: string, row: MysqlRow): FoundRows {
  const rowVersion = typeof row['version'] === 'string' ? row['version'] : undefined
  const isEmpty = rowVersion === undefined || textOf(row['record']) === nothing
  return foundOf(isEmpty ? undefined : recordIn(election, row), rowVersion, keptIn(election, row))
}

function foundOf<Found extends LeaseRecord | undefined>(
  record: Found,
  rowVersion: string | undefined,
  kept: KeptTermRow | undefined,
): FoundRows & { readonly record: Found } {
  const highestTerm = Math.max(record?.term ?? 0, kept?.term ?? 0)
  return { record, highestTerm, remainingMs: undefined, lastDurationMs: kept?.leaseMs, rowVersion, kept }
}

function keptIn(election: string, { term, duration: leaseMs }: MysqlRow): KeptTermRow | undefined {
  if (term === null || term === undefined) return undefined
  const kept = { term: Number(term), leaseMs: Number(leaseMs) }
  if (isTerm(kept.term, 0) && isLeaseDuration(kept.leaseMs)) return kept
  throw unusable(election, `its highest term is stored as ${show(term)} with a lease of ${show(leaseMs)} ms`)
}

function isMissing(table: string): TenureError {
  const text = `The table "${table}" does not exist. ${schemaAdvice.advice}.`
  return new TenureError('NOT_FOUND', text, { retryable: true, ...schemaAdvice })
}

function mayNotCreate(table: string, cause: unknown): TenureError {
  const text = `The table "${table}" does not exist or is hidden from this user, and the user may not create it. ${schemaAdvice.advice}. The user then needs SELECT, INSERT and UPDATE on it.`
  return new TenureError('UNAUTHORIZED', text, { cause, ...schemaAdvice })
}
