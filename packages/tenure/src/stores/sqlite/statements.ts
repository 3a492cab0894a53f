import { checkOptions } from '../../common/check-options.ts'
import { invalidOption } from '../../common/errors.ts'

/** The default table for records. */
export const defaultTable = 'tenure_leases'

/** Leaves room for the suffix of the second table. */
const tableName = /^[A-Za-z_][A-Za-z0-9_]{0,99}$/

/** Throws unless the name consists of letters, digits and underscores, because it is inserted into statements. */
export function checkTable(table: unknown): asserts table is string {
  if (typeof table === 'string' && tableName.test(table) && !/^sqlite_/i.test(table)) return
  const rule = 'it must be at most 100 letters, digits and underscores, and must not begin with a digit or "sqlite_"'
  throw invalidOption('table', table, rule)
}

/** Options of {@link sqliteSchema}. */
export interface SqliteSchemaOptions {
  /** The table for the records, as in the options of {@link sqliteStore}. Default: `tenure_leases`. */
  readonly table?: string | undefined
}

/**
 * Returns the statements that create the store's tables, for a migration. They can be run repeatedly. The first one
 * makes the database file use a write-ahead log, and cannot be run in a transaction.
 *
 * @example
 * database.exec(sqliteSchema({ table: 'leases' }))
 */
export function sqliteSchema(options: SqliteSchemaOptions = {}): string {
  checkOptions('sqliteSchema()', options, { table: true })
  const { table = defaultTable } = options
  checkTable(table)
  return `${[walMode, ...creation(table)].join(';\n')};\n`
}

/** The file keeps this mode. Without it, a power failure may undo a commit even if `synchronous` is FULL. */
export const walMode = 'PRAGMA journal_mode = wal'

/** Names are compared bytewise, which is SQLite's default. */
export function creation(table: string): string[] {
  return [
    `CREATE TABLE IF NOT EXISTS "${table}" (
      election TEXT PRIMARY KEY, version TEXT NOT NULL, record TEXT NOT NULL
    ) WITHOUT ROWID`,
    `CREATE TABLE IF NOT EXISTS "${table}_terms" (
      election TEXT PRIMARY KEY, term INTEGER NOT NULL, lease_ms REAL NOT NULL
    ) WITHOUT ROWID`,
  ].map((text) => text.replace(/\s+/g, ' '))
}

/**
 * Whether a commit on this connection survives a power failure. A function reads the setting when the statement runs. A
 * pragma would be evaluated when it is prepared.
 */
const isDurable = `(SELECT synchronous FROM pragma_synchronous) >= 2
  AND (SELECT journal_mode FROM pragma_journal_mode) = 'wal'`

/** The settings that determine what a power failure can undo. */
export const settings = {
  sql: `SELECT CAST(synchronous AS TEXT) AS synchronous, (SELECT journal_mode FROM pragma_journal_mode) AS journal,
    (SELECT CAST(timeout AS TEXT) FROM pragma_busy_timeout) AS busy FROM pragma_synchronous`,
  values: [],
}

export type Statements = ReturnType<typeof statementsFor>

/**
 * The statements for one pair of tables. Parameters are anonymous, because clients differ in other kinds, and every
 * statement returns rows, because some clients refuse to read the rows of one that does not.
 */
export function statementsFor(table: string, isRemote: boolean) {
  // What a commit on a server survives is up to that server.
  const condition = isRemote ? 'true' : isDurable
  const leases = `"${table}"`
  const terms = `"${table}_terms"`
  const state = `
    SELECT lease.version AS version, lease.record AS record,
      CAST(kept.term AS TEXT) AS term, CAST(kept.lease_ms AS TEXT) AS duration,
      CASE WHEN ${condition} THEN 'yes' ELSE 'no' END AS durable
    FROM (SELECT ? AS election) AS asked
    LEFT JOIN ${leases} AS lease ON lease.election = asked.election
    LEFT JOIN ${terms} AS kept ON kept.election = asked.election`
  // An absent record has the empty version.
  const isSeen = `coalesce((SELECT version FROM ${leases} WHERE election = ?), '') = ?`
  const texts = {
    /** election */
    state,
    /** election, version, record, election, version seen, election, highest term seen */
    swap: `
      INSERT INTO ${leases} (election, version, record) SELECT ?, ?, ?
      WHERE ${condition} AND ${isSeen} AND coalesce((SELECT term FROM ${terms} WHERE election = ?), 0) <= ?
      ON CONFLICT (election) DO UPDATE SET version = excluded.version, record = excluded.record
      RETURNING election`,
    /** election, term, duration, election, version written */
    raise: `
      INSERT INTO ${terms} (election, term, lease_ms) SELECT ?, ?, ? WHERE ${isSeen}
      ON CONFLICT (election) DO UPDATE SET term = max(term, excluded.term), lease_ms = excluded.lease_ms
      RETURNING election`,
    /** election, election, version seen */
    forgetTerm: `DELETE FROM ${terms} WHERE election = ? AND ${isSeen} RETURNING election`,
    /** election, version seen */
    forget: `DELETE FROM ${leases} WHERE election = ? AND version = ? RETURNING election`,
    /** the last election of the previous page, limit */
    list: `SELECT election, version, record FROM ${leases} WHERE election > ? ORDER BY election LIMIT ?`,
  }
  type Name = keyof typeof texts
  const short = Object.entries(texts).map(([name, text]) => [name, text.replace(/\s+/g, ' ').trim()])
  return Object.fromEntries(short) as Record<Name, string>
}
