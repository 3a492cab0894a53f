import { invalidOption, optionError, TenureError } from '../../common/errors.ts'

/** A value of a statement's parameter. */
export type SqliteValue = string | number | null

/** A prepared statement, as `node:sqlite`, `better-sqlite3` and `libsql` return it. */
export interface SqliteStatement {
  all(...values: SqliteValue[]): unknown[]
}

/** A synchronous connection: a `DatabaseSync` of `node:sqlite`, or a `Database` of `better-sqlite3` or `libsql`. */
export interface SqliteDatabase {
  exec(sql: string): unknown
  prepare(sql: string): SqliteStatement
}

/** One statement of a batch. */
export interface LibsqlStatement {
  sql: string
  args: SqliteValue[]
}

/** A client of `@libsql/client`, for a file or for a libSQL server. */
export interface LibsqlClient {
  /** `file` for a file, and the protocol of the server otherwise. */
  readonly protocol: string
  executeMultiple(sql: string): PromiseLike<unknown>
  batch(
    statements: LibsqlStatement[],
    mode: 'write' | 'read',
  ): PromiseLike<readonly { readonly rows: readonly object[] }[]>
}

/** The types that {@link sqliteStore} accepts as its client. */
export type SqliteClient = SqliteDatabase | LibsqlClient

/** A row. The store's statements return every column as text, because clients differ in how they return numbers. */
export type SqliteRow = Readonly<Record<string, unknown>>

/** One statement of a transaction, with the values of its parameters. It must return rows. */
export interface Step {
  readonly sql: string
  readonly values: readonly SqliteValue[]
}

/** `write` takes the write lock before the first statement. `read` sees one state of the database. */
export type Mode = 'write' | 'read'

/** A client, in the form in which the store uses it. */
export interface Connection {
  /** Whether the database is on a libSQL server. Its file, its locks and its durability are the server's. */
  readonly isRemote: boolean
  /**
   * Runs the steps in one transaction and returns the rows of each. `check` runs once the transaction is open, and ends
   * it by throwing. Rejects with the client's own error.
   */
  transact(mode: Mode, steps: readonly Step[], check: () => void): Promise<readonly (readonly SqliteRow[])[]>
  /** Runs one statement outside a transaction. */
  execute(sql: string): Promise<void>
}

/** Throws if the value is not one of the clients. */
export function checkClient(client: unknown): asserts client is SqliteClient {
  const has = (method: string) =>
    typeof client === 'object' && client !== null && typeof Reflect.get(client, method) === 'function'
  if ((has('exec') && has('prepare')) || (has('executeMultiple') && has('batch'))) return
  const kinds =
    'a DatabaseSync of "node:sqlite", a Database of "better-sqlite3" or "libsql", or a client of "@libsql/client"'
  if (client === undefined) {
    throw optionError({ option: 'client' }, `sqliteStore() needs the option "client" (${kinds}).`)
  }
  const byPath = typeof client === 'string' ? ': use openStore("sqlite:///path/to/file.db") for a path' : ''
  throw invalidOption('client', client, `it must be ${kinds}${byPath}`)
}

export function connectionTo(client: SqliteClient): Connection {
  return 'batch' in client ? new BatchConnection(client) : new StatementConnection(client)
}

/** Sends a transaction as one batch, because another call may use the client between two requests. */
class BatchConnection implements Connection {
  readonly isRemote: boolean
  readonly #client: LibsqlClient

  constructor(client: LibsqlClient) {
    this.#client = client
    this.isRemote = client.protocol !== 'file'
  }

  async transact(mode: Mode, steps: readonly Step[], check: () => void) {
    // A batch that finds a file locked leaves a statement behind, and then no commit of that connection succeeds.
    if (mode === 'write' && !this.isRemote) await this.#client.executeMultiple('BEGIN IMMEDIATE; ROLLBACK')
    check()
    // A server may answer a read from a lagging replica.
    const answers = await this.#client.batch(
      steps.map(({ sql, values }) => ({ sql, args: [...values] })),
      this.isRemote ? 'write' : mode,
    )
    return answers.map(({ rows }) => rows.map(rowOf))
  }

  async execute(sql: string) {
    await this.#client.executeMultiple(sql)
  }
}

/**
 * Runs a transaction statement by statement, in one turn of the event loop: no other code of this process runs in
 * between, so no other statement becomes part of the transaction.
 */
class StatementConnection implements Connection {
  readonly isRemote = false
  readonly #database: SqliteDatabase
  readonly #prepared = new Map<string, SqliteStatement>()

  constructor(database: SqliteDatabase) {
    this.#database = database
  }

  async transact(mode: Mode, steps: readonly Step[], check: () => void) {
    return this.#withoutWaiting(() => {
      // This fails inside a transaction that other code has opened, which could be rolled back.
      this.#database.exec(mode === 'write' ? 'BEGIN IMMEDIATE' : 'BEGIN')
      try {
        check()
        const answers = steps.map(({ sql, values }) =>
          this.#prepare(sql)
            .all(...values)
            .map(rowOf),
        )
        this.#database.exec('COMMIT')
        return answers
      } catch (error) {
        this.#rollBack()
        throw error
      }
    })
  }

  async execute(sql: string) {
    this.#withoutWaiting(() => void this.#database.exec(sql))
  }

  #prepare(sql: string): SqliteStatement {
    const statement = this.#prepared.get(sql) ?? this.#database.prepare(sql)
    this.#prepared.set(sql, statement)
    return statement
  }

  #rollBack(): void {
    try {
      this.#database.exec('ROLLBACK')
    } catch {
      // SQLite has already rolled back, as it does when the disk is full.
    }
  }

  /** While a synchronous client waits for a lock, the whole process waits. The store tries again on a timer instead. */
  #withoutWaiting<T>(run: () => T): T {
    // A pragma is evaluated when it is prepared, so its statement cannot be used again.
    const asked = this.#database.prepare('PRAGMA busy_timeout')
    if (typeof asked.all !== 'function') throw answersLater()
    const waits = Number(Object.values(rowOf(asked.all()[0]))[0])
    if (!(waits > 0)) return run()
    this.#database.exec('PRAGMA busy_timeout = 0')
    try {
      return run()
    } finally {
      this.#database.exec(`PRAGMA busy_timeout = ${waits}`)
    }
  }
}

function rowOf(row: unknown): SqliteRow {
  return row as SqliteRow
}

function answersLater(): TenureError {
  const text =
    'The SQLite store cannot use a connection whose "prepare" returns a promise, such as that of "libsql/promise": statements of other calls could become part of its transactions. Pass a Database of "libsql", or a client of "@libsql/client".'
  return new TenureError('UNSAFE_SETTINGS', text, { option: 'client' })
}
