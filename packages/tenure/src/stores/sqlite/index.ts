/**
 * Keeps elections in a SQLite database: one row per election, and another row with its highest term.
 *
 * @module
 */
import { checkOptions, type OptionNames } from '../../common/check-options.ts'
import type { Clock } from '../../common/clock.ts'
import type { InspectableStore } from '../../store-kit/diagnostics.ts'
import { checkClient, type SqliteClient } from './client.ts'
import { sqliteStoreOn } from './server.ts'

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
