import type { CallBound } from '../../common/call-bound.ts'
import type { Clock } from '../../common/clock.ts'
import { isTenureError, TenureError } from '../../common/errors.ts'
import type { CallOptions } from '../../engine/lease-store.ts'
import { withBound } from '../../store-kit/call-deadline.ts'
import {
  connectionTo,
  type SqliteConnection,
  type Mode,
  type SqliteClient,
  type SqliteRow,
  type Step,
} from './client.ts'
import { DatabaseFile, FileReplaced } from './database-file.ts'
import { failureOf, isBusy, isMissingTable, lockedOut, needsNewConnection } from './failures.ts'
import { creation, settings, statementsFor, walMode, type SqliteStatements } from './statements.ts'

/** Where the connection comes from. */
export interface DatabaseSource {
  readonly client: () => SqliteClient | Promise<SqliteClient>
  /** Whether the store opened the client, so that it may close it and open another. */
  readonly isOwn: boolean
  /** The database, for messages. Undefined if only the client knows it. */
  readonly place?: string
  /** Whether there is a database. A read must not create one. */
  readonly exists: () => boolean | Promise<boolean>
}

export interface DatabaseOptions {
  readonly table: string
  readonly createTable: boolean
  readonly allowNetworkFilesystem: boolean
}

/** An open connection, and what is known about its database. */
interface Session {
  readonly client: SqliteClient
  readonly connection: SqliteConnection
  readonly statements: SqliteStatements
  /** Undefined if the database is on a server. */
  readonly file: DatabaseFile | undefined
  /** Whether the tables were found or created. */
  hasTables: boolean
}

/** Returns the steps of a transaction. */
export type StepsOf = (statements: SqliteStatements) => readonly Step[]

const firstPauseMs = 1
const longestPauseMs = 20

/** Runs transactions on the database, each within the deadline of its call. */
export class Database {
  readonly #source: DatabaseSource
  readonly #options: DatabaseOptions
  readonly #clock: Clock
  #session: Promise<Session> | undefined
  #place: string
  #closed = false

  constructor(source: DatabaseSource, options: DatabaseOptions, clock: Clock) {
    this.#source = source
    this.#place = source.place ?? 'the database'
    this.#options = options
    this.#clock = clock
  }

  /** The database, for messages. */
  get place(): string {
    return this.#place
  }

  /** Returns the rows of each step. Undefined if the tables do not exist yet. */
  async read(call: CallOptions, steps: StepsOf): Promise<readonly (readonly SqliteRow[])[] | undefined> {
    return this.#call(call, async (bound) => {
      if (!this.#session && !(await this.#source.exists())) return undefined
      const session = await this.#open()
      return this.#transact(session, 'read', steps, bound).catch(noTables)
    })
  }

  /** Takes the write lock, and returns the rows of each step. Creates missing tables if that is allowed. */
  async write(call: CallOptions, steps: StepsOf): Promise<readonly (readonly SqliteRow[])[]> {
    return this.#call(call, async (bound) => {
      const session = await this.#open()
      if (!session.hasTables) await this.#createTables(session)
      session.hasTables = true
      try {
        return await this.#transact(session, 'write', steps, bound)
      } catch (error) {
        if (isMissingTable(error)) session.hasTables = false
        throw error
      }
    })
  }

  /** The settings of the connection. Undefined if there is no database yet. */
  async settings(call: CallOptions): Promise<SqliteRow | undefined> {
    return this.#call(call, async (bound) => {
      if (!this.#session && !(await this.#source.exists())) return undefined
      const session = await this.#open()
      return (await this.#transact(session, 'read', () => [settings], bound))[0]?.[0]
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#leave()
  }

  /** Tries again for as long as another connection holds the lock, because nothing was written then. */
  #call<T>(call: CallOptions, action: (bound: CallBound) => Promise<T>): Promise<T> {
    return withBound(this.#clock, 'SQLite', call, async (bound) => {
      let blocked: unknown
      for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
        try {
          if (this.#closed) throw new TenureError('STOPPED', 'The SQLite store is closed.')
          return await bound.race(action(bound))
        } catch (error) {
          if (bound.ended) throw this.#late(error, blocked, call)
          if (!isBusy(error)) throw await this.#failed(error)
          blocked = error
        }
        await bound.race(this.#pause(pauseMs)).catch((error: unknown) => {
          throw this.#late(error, blocked, call)
        })
      }
    })
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#clock.setTimer(ms * (0.5 + this.#clock.random()), resolve))
  }

  #late(error: unknown, blocked: unknown, { timeoutMs }: CallOptions): unknown {
    const isDeadline = isTenureError(error) && error.code === 'TIMEOUT'
    return isDeadline && blocked !== undefined ? lockedOut(this.#place, timeoutMs, blocked) : error
  }

  async #failed(error: unknown): Promise<unknown> {
    if (error instanceof FileReplaced || needsNewConnection(error)) await this.#leave()
    return failureOf(error, this.#place, this.#options.table)
  }

  /** Closes a connection that the store opened itself, so that the next call opens another. */
  async #leave(): Promise<void> {
    if (!this.#source.isOwn) return
    const session = this.#session
    this.#session = undefined
    const client = await session?.then(
      (open) => open.client,
      () => undefined,
    )
    if (client) closeQuietly(client)
  }

  #transact({ connection, statements, file }: Session, mode: Mode, steps: StepsOf, bound: CallBound) {
    return connection.transact(mode, steps(statements), () => {
      // An abandoned call must not be carried out later.
      if (bound.ended) throw bound.reason
      file?.check()
    })
  }

  #open(): Promise<Session> {
    const opening = (this.#session ??= this.#openSession())
    opening.catch(() => {
      if (this.#session === opening) this.#session = undefined
    })
    return opening
  }

  async #openSession(): Promise<Session> {
    const { table, allowNetworkFilesystem } = this.#options
    const client = await this.#source.client()
    try {
      const connection = connectionTo(client)
      const { isRemote } = connection
      const path = isRemote ? undefined : await this.#pathOf(connection)
      this.#place = path === undefined ? 'the database on the server' : `the database "${path}"`
      const file = path === undefined ? undefined : await DatabaseFile.inspect(path, allowNetworkFilesystem)
      return { client, connection, statements: statementsFor(table, isRemote), file, hasTables: false }
    } catch (error) {
      if (this.#source.isOwn) closeQuietly(client)
      throw error
    }
  }

  async #pathOf(connection: SqliteConnection): Promise<string> {
    // Counting the tables makes SQLite open its files.
    const sql = `SELECT file, (SELECT count(*) FROM sqlite_master) AS tables FROM pragma_database_list WHERE name = 'main'`
    const [rows = []] = await connection.transact('read', [{ sql, values: [] }], () => {})
    const path: unknown = rows[0]?.['file']
    if (typeof path === 'string' && path !== '') return path
    const text =
      'The SQLite store cannot use a database in memory or a temporary one: every connection has its own, so all candidates would lead at once. Use a file, or memoryStore() within one process.'
    throw new TenureError('UNSAFE_SETTINGS', text)
  }

  async #createTables({ connection }: Session): Promise<void> {
    const { table, createTable } = this.#options
    const sql = `SELECT count(*) || '' AS found FROM sqlite_master WHERE type = 'table' AND name IN (?, ?)`
    const [rows = []] = await connection.transact('read', [{ sql, values: [table, `${table}_terms`] }], () => {})
    if (!createTable || rows[0]?.['found'] === '2') return
    if (!connection.isRemote) await connection.execute(walMode)
    for (const statement of creation(table)) await connection.execute(statement)
  }
}

function noTables(error: unknown): undefined {
  if (!isMissingTable(error)) throw error
}

function closeQuietly(client: SqliteClient): void {
  const close: unknown = Reflect.get(client, 'close')
  try {
    if (typeof close === 'function') close.call(client)
  } catch {
    // The client is closed already.
  }
}
