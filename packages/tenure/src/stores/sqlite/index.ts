/**
 * Keeps elections in a SQLite database: one row per election, and another row with its highest term.
 *
 * @module
 */
import { isLeaseDuration, isTerm } from '@tenure/internal/field-reader'
import { checkOptions, type OptionNames } from '../../common/check-options.ts'
import { systemClock, type Clock } from '../../common/clock.ts'
import { TenureError } from '../../common/errors.ts'
import { checkBoolean, checkClock, ownCheckpointLimitBytes } from '../../engine/check-values.ts'
import type { CallOptions, LeaseRecord, ListPage } from '../../engine/lease-store.ts'
import { swapStore, type SwapOutcome, type SwapServer } from '../../store-kit/compare-and-swap-store.ts'
import type { Finding, InspectableStore } from '../../store-kit/diagnostics.ts'
import { listPage, type Page } from '../../store-kit/list.ts'
import { encodeRecord, readAt, recordOf, unusable } from '../../store-kit/record.ts'
import type { Current, RecordDraft } from '../../store-kit/rules.ts'
import { checkClient, type SqliteClient, type SqliteRow } from './client.ts'
import { Database, type DatabaseSource } from './database.ts'
import { findingsOf, unsafeSettings } from './diagnostics.ts'
import { checkTable, defaultTable } from './statements.ts'

export type { InspectableStore } from '../../store-kit/diagnostics.ts'
export type {
  LibsqlClient,
  LibsqlStatement,
  SqliteClient,
  SqliteDatabase,
  SqliteStatement,
  SqliteValue,
} from './client.ts'
export { sqliteSchema, type SqliteSchemaOptions } from './statements.ts'

/** Options of {@link sqliteStore}. */
export interface SqliteStoreOptions {
  /**
   * A `DatabaseSync` of `node:sqlite`, a `Database` of `better-sqlite3` or `libsql`, or a client of `@libsql/client`.
   * The caller owns it: the store never closes it.
   */
  readonly client: SqliteClient
  /** The table for the records: letters, digits and underscores. Default: `tenure_leases`. */
  readonly table?: string | undefined
  /**
   * Whether a claim creates missing tables, and then also turns on the write-ahead log. Reads never do. Default: true.
   * `sqliteSchema()` returns the statements for a migration.
   */
  readonly createTable?: boolean | undefined
  /** Accepts a file on a network or FUSE file system, where a lock may be local to one host. Default: false. */
  readonly allowNetworkFilesystem?: boolean | undefined
  readonly clock?: Clock | undefined
}

const names: OptionNames<SqliteStoreOptions> = {
  client: true,
  table: true,
  createTable: true,
  allowNetworkFilesystem: true,
  clock: true,
}

/**
 * Keeps elections in a SQLite database that the processes of one machine share, or on a libSQL server, using a client
 * that the program already has.
 *
 * @example
 * const store = sqliteStore({ client: new DatabaseSync('/var/lib/my-app/leases.db') })
 * await lead({ store, election: 'nightly-report' }, work)
 */
export function sqliteStore(options: SqliteStoreOptions): InspectableStore {
  checkOptions('sqliteStore()', options, names)
  const { client } = options
  checkClient(client)
  return sqliteStoreOn({ client: () => client, isOwn: false, exists: () => true }, options)
}

/** Builds the store on a client that may be opened later. */
export function sqliteStoreOn(source: DatabaseSource, options: Omit<SqliteStoreOptions, 'client'>): InspectableStore {
  const { table = defaultTable, createTable = true, allowNetworkFilesystem = false, clock = systemClock } = options
  checkTable(table)
  checkBoolean('createTable', createTable)
  checkBoolean('allowNetworkFilesystem', allowNetworkFilesystem)
  checkClock(clock)
  const database = new Database(source, { table, createTable, allowNetworkFilesystem }, clock)
  const server = new SqliteServer(database, table, clock)
  return { ...swapStore(server, clock), inspect: (call) => server.inspect(call) }
}

/** The highest term, and the duration of its lease. */
interface Kept {
  readonly term: number
  readonly leaseMs: number
}

interface FoundRow extends Current {
  readonly kept: Kept | undefined
}

const nothing: FoundRow = { record: undefined, highestTerm: 0, remainingMs: undefined, kept: undefined }

class SqliteServer implements SwapServer<FoundRow> {
  readonly expiry = 'observed'
  readonly checkpointLimitBytes = ownCheckpointLimitBytes
  readonly keepsTerms = true
  readonly #database: Database
  readonly #table: string
  readonly #clock: Clock

  constructor(database: Database, table: string, clock: Clock) {
    this.#database = database
    this.#table = table
    this.#clock = clock
  }

  async find(election: string, call: CallOptions): Promise<FoundRow> {
    const answers = await this.#database.read(call, ({ state }) => [{ sql: state, values: [election] }])
    return answers ? this.#foundOf(election, answers.at(-1)?.[0]) : nothing
  }

  async swap(election: string, over: FoundRow, draft: RecordDraft, call: CallOptions): Promise<SwapOutcome<FoundRow>> {
    const { term, leaseDurationMs } = draft
    const text = encodeRecord(draft, () => this.#clock.randomId())
    const version = this.#clock.randomId()
    // Someone may have replaced the record by one of a lower term. A renewal leaves the decision to its version.
    const highest = term === over.record?.term ? Number.MAX_SAFE_INTEGER : over.highestTerm
    const isKept = over.kept?.term === term && over.kept.leaseMs === leaseDurationMs
    const answers = await this.#database.write(call, ({ swap, raise, state }) => [
      { sql: swap, values: [election, version, text, election, over.record?.version ?? '', election, highest] },
      // Most renewals leave the term's row unchanged.
      ...(isKept ? [] : [{ sql: raise, values: [election, term, leaseDurationMs, election, version] }]),
      { sql: state, values: [election] },
    ])
    const row = answers.at(-1)?.[0]
    if (row?.['version'] === version) {
      const record = { ...draft, version }
      return { ok: true, found: { ...this.#foundOf(election, row), record } }
    }
    if (row?.['durable'] === 'no') throw unsafeSettings(this.#database.place, await this.#database.settings(call))
    return { ok: false, found: this.#foundOf(election, row) }
  }

  async remove(election: string, over: FoundRow, withTerm: boolean, call: CallOptions): Promise<boolean> {
    const version = over.record?.version ?? ''
    const answers = await this.#database.write(call, ({ forget, forgetTerm }) => [
      ...(withTerm ? [{ sql: forgetTerm, values: [election, election, version] }] : []),
      { sql: forget, values: [election, version] },
    ])
    return answers.at(-1)?.length === 1
  }

  async list({ after = '', limit }: Page, call: CallOptions): Promise<ListPage> {
    // One more row shows whether there is another page.
    const answers = await this.#database.read(call, ({ list }) => [{ sql: list, values: [after, limit + 1] }])
    const rows = answers?.[0] ?? []
    const page = rows.slice(0, limit)
    const next = rows.length > limit ? String(page.at(-1)?.['election']) : undefined
    return listPage(page, next, (row) => this.#recordOf(String(row['election']), row))
  }

  /** Problems with the settings of the connection. */
  async inspect(call: CallOptions): Promise<readonly Finding[]> {
    const settings = await this.#database.settings(call)
    return settings ? findingsOf(settings) : []
  }

  async close(): Promise<void> {
    await this.#database.close()
  }

  #foundOf(election: string, row: SqliteRow | undefined): FoundRow {
    if (!row || !('version' in row)) {
      const text = 'The client does not return rows as objects with the names of the columns. Use its default settings.'
      throw new TenureError('UNSAFE_SETTINGS', text)
    }
    const record = row['version'] === null ? undefined : this.#recordOf(election, row)
    const kept = this.#keptOf(election, row)
    const highestTerm = Math.max(record?.term ?? 0, kept?.term ?? 0)
    return { record, highestTerm, remainingMs: undefined, lastDurationMs: kept?.leaseMs, kept }
  }

  #recordOf(election: string, { version, record }: SqliteRow): LeaseRecord {
    return readAt(`the row of "${election}" in the table "${this.#table}" of ${this.#database.place}`, 'table', () => {
      if (typeof version !== 'string' || version === '') throw unusable(election, 'its version is missing')
      return recordOf(election, String(record), version)
    })
  }

  #keptOf(election: string, { term, duration }: SqliteRow): Kept | undefined {
    if (term === null) return undefined
    const kept = { term: Number(term), leaseMs: Number(duration) }
    if (isTerm(kept.term) && isLeaseDuration(kept.leaseMs)) return kept
    return readAt(`the table "${this.#table}_terms" of ${this.#database.place}`, 'table', () => {
      throw unusable(election, 'its highest term cannot be read')
    })
  }
}
