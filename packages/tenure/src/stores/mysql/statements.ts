/** A statement, and the names of its parameters in order. */
export interface MysqlStatement {
  readonly text: string
  readonly parameters: readonly string[]
}

/**
 * All statements of the store. Each is one transaction, so that a pool may send each on another connection.
 *
 * Texts are sent and returned as hexadecimal digits. So neither the character set of a connection, nor a collation, nor
 * a `sql_mode` can change or merge them. No literal is empty, because one `sql_mode` reads '' as NULL.
 */
export interface MysqlStatements {
  /** Returns a row with the table's engine, if there is a table. */
  readonly engine: MysqlStatement
  /** Returns a row for each column of the table. */
  readonly columns: MysqlStatement
  readonly create: MysqlStatement
  readonly find: MysqlStatement
  /** Overwrites a record if the highest term and its duration stay the same: a renewal or a release. */
  readonly renew: MysqlStatement
  /** Overwrites a record together with the highest term. */
  readonly take: MysqlStatement
  /** Inserts a record and a term if there is neither. */
  readonly first: MysqlStatement
  /**
   * Inserts a row without a record, a term, or both, where they are missing. `take` then overwrites both in one step.
   */
  readonly complete: MysqlStatement
  /** Changes a row, but no part that anyone compares. Its commit is durable only if all commits before it are. */
  readonly confirm: MysqlStatement
  /** Deletes a record. */
  readonly forget: MysqlStatement
  /** Deletes a record together with its highest term. */
  readonly forgetTerm: MysqlStatement
  list(limit: number): MysqlStatement
}

/** The settings of a connection and its server that `checkSettings` reads. */
export const settings: MysqlStatement = statement(`
  show variables where variable_name in ('version', 'log_bin', 'binlog_format', 'autocommit', 'in_transaction')`)

/** The content of a row without a record, and the version of a term. */
export const nothing = '-'

/** The server measures waits in whole seconds. A longer wait is for a commit that hangs. */
const longestLockSeconds = 5

/** What {@link within} replaces. */
const lockSeconds = '{lockSeconds}'

const waits = `innodb_lock_wait_timeout = ${lockSeconds}, lock_wait_timeout = ${lockSeconds}`

/** The text of a statement for a call that has this much time left. It waits for locks no longer than that. */
export function within({ text }: MysqlStatement, leftMs: number | undefined): string {
  const leftSeconds = Math.floor((leftMs ?? Infinity) / 1_000)
  return text.replaceAll(lockSeconds, String(Math.min(Math.max(leftSeconds, 1), longestLockSeconds)))
}

/** Settings for connections that the store opened, because MySQL cannot limit a single statement. */
export const connectionSettings = within(
  { text: `set session autocommit = 1, ${waits}`, parameters: [] },
  longestLockSeconds * 1_000,
)

const columns = {
  id: 'varbinary(264)',
  version: 'varbinary(64)',
  term: 'bigint unsigned',
  lease_ms: 'double',
  record: 'mediumblob',
  confirmations: 'int unsigned',
}

/** The columns in the form of {@link columnOf}. */
export const expectedColumns = Object.entries(columns).map(([name, type]) => `${name} ${type}`)

/** A column as the server describes it. Only some servers show the width of integers, which has no meaning. */
export function columnOf(name: string, type: string): string {
  return `${name} ${type.toLowerCase().replace(/int\(\d+\)/, 'int')}`
}

/** Creates the table, unless it exists. */
export function creation(table: string): string {
  const lines = Object.entries(columns).map(([name, type]) => `${name} ${type} not null`)
  return `create table if not exists ${table} (${lines.join(', ')}, primary key (id)) engine = InnoDB`
}

/** The statements for one table. Only MariaDB limits waits and shows open transactions within a statement. */
export function statementsFor(table: string, isMariaDB: boolean): MysqlStatements {
  const opened = isMariaDB ? '@@session.in_transaction' : '0'
  const writable = `cast(@@global.read_only as char) in ('0', 'OFF')`
  const flushed = `@@global.innodb_flush_log_at_trx_commit in (1, 3)`
  // Every write checks these conditions, because they can change at any time and differ between connections.
  const isSafe = `${writable} and ${flushed} and @@session.autocommit = 1 and ${opened} = 0`
  const limited = (text: string) => statement(isMariaDB ? `set statement ${waits} for ${text}` : text)
  const isSeen = `id = unhex(:id) and version = :version and ${isSafe}`
  const into = `insert into ${table} (id, version, term, lease_ms, record, confirmations)`
  const keptRow = `select unhex(:termId), '${nothing}', :term, :leaseMs, '${nothing}', 0 from dual where ${isSafe}`
  const both = `${table} as lease join ${table} as kept on kept.id = unhex(:termId)`
  const isBothSeen = `lease.id = unhex(:id) and lease.version = :version and kept.term = :highestTerm and ${isSafe}`
  const [schema, name] = table.includes('.') ? table.split('.') : [undefined, table]
  const literal = (quoted = '') => `'${quoted.replaceAll('`', '')}'`
  const isTable = `table_schema = ${schema === undefined ? 'database()' : literal(schema)} and table_name = ${literal(name)}`
  return {
    engine: limited(`select engine as engine from information_schema.tables where ${isTable}`),
    columns: limited(`
      select column_name as name, column_type as type, column_key as keyed from information_schema.columns
      where ${isTable} order by ordinal_position`),
    create: limited(creation(table)),
    // A locking read shows the newest commit, even in a transaction with an old snapshot and at every isolation level.
    find: limited(`
      select 'tenure' as answer, cast(${writable} as char) as writable, cast(${flushed} as char) as flushed,
        cast(@@session.autocommit = 1 as char) as committing, cast(${opened} = 1 as char) as opened,
        convert(lease.version using ascii) as version, hex(lease.record) as record,
        cast(kept.term as char) as term, cast(kept.lease_ms as char) as duration
      from (select 1 as one) as asked
      left join ${table} as lease on lease.id = unhex(:id)
      left join ${table} as kept on kept.id = unhex(:termId)
      lock in share mode`),
    renew: limited(`update ${table} set version = :next, record = unhex(:record) where ${isSeen}`),
    take: limited(`
      update ${both} set lease.version = :next, lease.record = unhex(:record), kept.term = :term,
        kept.lease_ms = :leaseMs
      where ${isBothSeen}`),
    first: limited(`
      ${into} select unhex(:id), :next, 0, 0, unhex(:record), 0 from dual where ${isSafe} union all ${keptRow}`),
    complete: limited(`
      ${into} select unhex(:id), :next, 0, 0, '${nothing}', 0 from dual where ${isSafe} union all ${keptRow}
      on duplicate key update confirmations = ${table}.confirmations`),
    confirm: limited(`update ${table} set confirmations = (confirmations + 1) % 1000000 where ${isSeen}`),
    forget: limited(`delete from ${table} where ${isSeen}`),
    forgetTerm: limited(`delete lease, kept from ${both} where ${isBothSeen}`),
    list: (limit) =>
      limited(`
        select hex(id) as id, convert(version using ascii) as version, hex(record) as record from ${table}
        where id > unhex(:after) and id < '${lastRecordId}' and record <> '${nothing}'
        order by id limit ${Math.trunc(limit)}`),
  }
}

/** The key of an election's record or of its highest term. They differ, so that deleting one leaves the other. */
export function idOf(election: string, kind: 'lease' | 'term'): string {
  return `${kind}/${election}`
}

/** Follows the keys of all records, and precedes those of all terms. */
const lastRecordId = 'lease0'

/** Replaces names with `?`. */
function statement(named: string): MysqlStatement {
  const parameters: string[] = []
  const text = named.replace(/:(\w+)/g, (_, name: string) => {
    parameters.push(name)
    return '?'
  })
  return { text: text.replace(/\s+/g, ' ').trim(), parameters }
}
