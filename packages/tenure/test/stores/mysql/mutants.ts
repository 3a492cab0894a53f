import type { Mutation } from '../../../../../test/mutants/mutant.ts'

/** A mutant of the MySQL store, and the check that must catch it. */
export interface MysqlMutation extends Mutation {
  /** A case of the conformance suite, or a check in mutants.server.test.ts. */
  readonly caughtBy: string
}

const statements = 'stores/mysql/statements.ts'
const store = 'stores/mysql/index.ts'
const settings = 'stores/mysql/settings.ts'

/** A real MariaDB must reveal every one of these. */
export const mysqlMutations: readonly MysqlMutation[] = [
  {
    name: 'a renewal overwrites a row without comparing its version',
    file: statements,
    find: 'const isSeen = `id = unhex(:id) and version = :version and ${isSafe}`',
    replace: 'const isSeen = `id = unhex(:id) and :version is not null and ${isSafe}`',
    caughtBy: 'exactly one of many renewals of the same version wins',
  },
  {
    name: 'a takeover overwrites a row without comparing its version',
    file: statements,
    find: 'lease.version = :version and kept.term = :highestTerm',
    replace: ':version is not null and kept.term <= :highestTerm + 100',
    caughtBy: 'exactly one of many contenders wins a released lease',
  },
  {
    name: 'a takeover ignores the separately stored term',
    file: statements,
    find: 'kept.term = :highestTerm',
    replace: 'kept.term <= :highestTerm + 100',
    caughtBy: 'a separately stored term that rose in the meantime is not granted again',
  },
  {
    name: 'a renewal keeps the version',
    file: store,
    find: 'const next = clock.randomId()',
    replace: 'const next = over.rowVersion ?? clock.randomId()',
    caughtBy: 'a renewal keeps the grant and creates a new version',
  },
  {
    name: 'a first record overwrites any existing record',
    file: statements,
    find: 'unhex(:record), 0 from dual where ${isSafe} union all ${keptRow}`),',
    replace:
      'unhex(:record), 0 from dual where ${isSafe} union all ${keptRow} on duplicate key update version = :next`),',
    caughtBy: 'exactly one of many contenders wins a new election',
  },
  {
    name: 'the highest term is lost with the record',
    file: store,
    find: 'rowVersion, keptIn(election, row))',
    replace: 'rowVersion, isEmpty ? undefined : keptIn(election, row))',
    caughtBy: 'the highest term survives the removal of its record',
  },
  {
    name: 'forget keeps the highest term although it should not',
    file: store,
    find: 'withTerm && kept ? forgetTerm : forget',
    replace: 'forget',
    caughtBy: 'forget with withTerm removes a released record and its term',
  },
  {
    name: 'a refusal returns the state that the store remembers instead of the current state',
    file: store,
    find: 'if (affected === 0) return { ok: false }',
    replace: 'if (affected === 0) return { ok: false, found: over }',
    caughtBy: 'a refusal returns the newest record to a candidate that has read an older one',
  },
  {
    name: 'a refused call reads the record from an old snapshot',
    file: statements,
    find: '\n      lock in share mode`),',
    replace: '`),',
    caughtBy: 'a refusal returns the newest record even in an old snapshot',
  },
  {
    name: 'a deadlock is reported as an error',
    file: 'stores/mysql/failures.ts',
    find: 'new Set([1213, 1020, 1062])',
    replace: 'new Set([1020, 1062])',
    caughtBy: 'a deadlock is a write that was not done, not an error',
  },
  {
    name: 'a statement waits for a lock as long as the server likes',
    file: statements,
    find: 'statement(isMariaDB ? `set statement ${waits} for ${text}` : text)',
    replace: 'statement(text)',
    caughtBy: 'a lock of another session ends a call before its deadline',
  },
  {
    name: 'a grant is accepted from a server that does not wait for its disk',
    file: statements,
    find: '`@@global.innodb_flush_log_at_trx_commit in (1, 3)`',
    replace: "'1 = 1'",
    caughtBy: 'nothing is granted when commits do not wait for the disk',
  },
  {
    name: 'a user who may write to a read-only server is granted a lease there',
    file: statements,
    find: "`cast(@@global.read_only as char) in ('0', 'OFF')`",
    replace: "'1 = 1'",
    caughtBy: 'nothing is granted on a read-only server',
  },
  {
    name: 'a grant is accepted where the connection does not commit',
    file: statements,
    find: 'and @@session.autocommit = 1 and ${opened} = 0`',
    replace: 'and ${opened} = 0`',
    caughtBy: 'nothing is granted on a connection that does not commit by itself',
  },
  {
    name: "a grant inside another program's transaction is accepted",
    file: statements,
    find: "const opened = isMariaDB ? '@@session.in_transaction' : '0'",
    replace: "const opened = isMariaDB ? '0' : '0'",
    also: [{ file: 'stores/mysql/client.ts', find: 'const inTransaction = 1', replace: 'const inTransaction = 0' }],
    caughtBy: 'nothing is granted in a transaction that may be rolled back',
  },
  {
    name: 'any engine may keep the table',
    file: settings,
    find: "if (engine === 'InnoDB') return true",
    replace: "if (engine !== '') return true",
    caughtBy: 'nothing is granted in a table without transactions',
  },
  {
    name: 'a table whose columns are too short is used',
    file: settings,
    find: 'if (!isKey || columns.join() !== expectedColumns.join()) {',
    replace: 'if (!isKey || columns.length !== expectedColumns.length) {',
    caughtBy: 'nothing is granted in a table that cuts records',
  },
  {
    name: 'names that a collation treats as equal share a record',
    file: statements,
    find: "id: 'varbinary(264)'",
    replace: "id: 'varchar(264)'",
    caughtBy: 'names that differ only in case or trailing spaces have different leaders',
  },
  {
    name: 'texts are sent as they are',
    file: store,
    find: "return Buffer.from(text, 'utf8').toString('hex')",
    replace: 'return text',
    also: [
      { file: store, find: "return Buffer.from(String(hex), 'hex').toString('utf8')", replace: 'return String(hex)' },
      {
        file: statements,
        find: '(text: string) => statement(isMariaDB ? `set statement ${waits} for ${text}` : text)',
        replace: `(text: string) => statement(text.replace(/unhex\\((:\\w+)\\)/g, '$1')
          .replace(/hex\\(([\\w.]+)\\)/g, 'convert($1 using utf8mb4)'))`,
      },
    ],
    caughtBy: 'texts are unchanged by a connection with another character set',
  },
  {
    name: 'a record that a crash could still lose counts as a grant',
    file: store,
    find: '!this.#unsettled.has(election)',
    replace: "!this.#unsettled.has('nothing')",
    caughtBy: 'a grant whose answer was lost is confirmed by a later write',
  },
  {
    name: 'an abandoned claim is sent when the pool has a connection again',
    file: 'stores/mysql/client.ts',
    find: '(late) => late.release(),',
    replace: 'async (late) => { await late.execute(within(statement, 1_000), values); late.release() },',
    caughtBy: 'a claim that timed out waiting for an exhausted pool is never sent',
  },
  {
    name: 'a connection on which a call hangs is reused for the next call',
    file: 'stores/mysql/failures.ts',
    find: 'return number !== undefined && ',
    replace: 'return number === undefined || ',
    caughtBy: 'a renewal does not wait behind one that hangs',
  },
  {
    name: 'a certificate for localhost is accepted at every IP address',
    file: 'stores/mysql/open.ts',
    find: "mode === 'VERIFY_IDENTITY' && isIP(host) !== 0",
    replace: "mode === 'VERIFY_IDENTITY' && isIP(host) === 1",
    caughtBy: 'a server at an IP address is refused with VERIFY_IDENTITY',
  },
]
