import { TenureError } from '../../common/errors.ts'
import { isInTransaction, type MysqlRow } from './client.ts'
import { isReadOnly } from './failures.ts'
import { columnOf, expectedColumns } from './statements.ts'

/** The oldest servers that the store supports. */
const oldest = { mariadb: [10, 6], mysql: [8, 0] } as const

/** The settings of a server by name, as `show variables` returns them. */
export function settingsIn(rows: readonly MysqlRow[]): Map<string, string> {
  const entries = rows.map((row) => [String(row['Variable_name']).toLowerCase(), String(row['Value'])] as const)
  return new Map(entries)
}

/** Whether the server is MariaDB. */
export function isMariaDB(settings: ReadonlyMap<string, string>): boolean {
  return /mariadb/i.test(settings.get('version') ?? '')
}

/** Throws if the connection's settings show that its writes are not safe. */
export function checkConnection(settings: ReadonlyMap<string, string>): void {
  const version = settings.get('version')
  if (version === undefined) throw isUnreadable()
  // Old MariaDB pretends to be a MySQL: 5.5.5-10.6.16-MariaDB.
  const [major = 0, minor = 0] = (/^(?:5\.5\.5-)?(\d+)\.(\d+)/.exec(version) ?? []).slice(1).map(Number)
  const [leastMajor, leastMinor] = oldest[isMariaDB(settings) ? 'mariadb' : 'mysql']
  if (major < leastMajor || (major === leastMajor && minor < leastMinor)) throw isTooOld(version)
  if (settings.get('in_transaction') === '1') throw isInTransaction()
  if (settings.get('autocommit') === 'OFF') throw notCommitting()
  if (settings.get('log_bin') === 'ON' && settings.get('binlog_format') === 'STATEMENT') throw repeatsStatements()
}

/** Throws if the state that was read shows that writes on this connection are not safe. */
export function checkFound([row]: readonly MysqlRow[]): void {
  if (row?.['answer'] !== 'tenure') throw isUnreadable()
  if (row['opened'] !== '0') throw isInTransaction()
  if (row['committing'] !== '1') throw notCommitting()
  if (row['writable'] !== '1') throw isReadOnly()
  if (row['flushed'] !== '1') throw isNotFlushed()
}

/**
 * Whether there is a table. Throws unless it is one that this store can use. Other columns could shorten a text without
 * an error, and other engines cannot undo half a write.
 */
export function checkTable([row]: readonly MysqlRow[], rows: readonly MysqlRow[], table: string): boolean {
  const [first] = rows
  // The table may be dropped or created between the two statements.
  if (!row || !first) return false
  const engine = String(row['engine'])
  const keys = rows.filter(({ keyed }) => keyed === 'PRI')
  const isKey = keys.length === 1 && keys[0] === first
  const columns = rows.map(({ name, type }) => columnOf(String(name), String(type)))
  if (!isKey || columns.join() !== expectedColumns.join()) {
    const text = `The table "${table}" was not created by Tenure, or was changed since. Set the option "table" to another name (in a URL: ?table=NAME).`
    throw new TenureError('RECORD_INVALID', text)
  }
  if (engine === 'InnoDB') return true
  const text = `The table "${table}" uses the engine ${engine}, which can lose a granted lease in a crash or keep half a write. Run: alter table ${table} engine = InnoDB.`
  throw new TenureError('UNSAFE_SETTINGS', text)
}

function isUnreadable(): TenureError {
  const text =
    'The client did not return rows as objects with text. Remove its options that change the form of rows, or pass a separate client to the store.'
  return new TenureError('RECORD_INVALID', text)
}

function notCommitting(): TenureError {
  const text =
    'autocommit is off for this connection, so a grant could be rolled back. Pass a client whose connections have autocommit on.'
  return new TenureError('UNSAFE_SETTINGS', text)
}

function isNotFlushed(): TenureError {
  const text =
    'innodb_flush_log_at_trx_commit is not 1: the server confirms a write before its disk has it, and could lose a granted lease. Run: set global innodb_flush_log_at_trx_commit = 1, and set it in the configuration.'
  return new TenureError('UNSAFE_SETTINGS', text)
}

function repeatsStatements(): TenureError {
  const text =
    'binlog_format is STATEMENT: replicas repeat the statements of this store with their own settings, and would miss its writes. Set binlog_format to ROW or MIXED.'
  return new TenureError('UNSAFE_SETTINGS', text)
}

function isTooOld(version: string): TenureError {
  const text = `This store needs MySQL ${oldest.mysql.join('.')} or MariaDB ${oldest.mariadb.join('.')}, or newer, but this server reports version ${version}.`
  return new TenureError('BACKEND_UNAVAILABLE', text)
}
