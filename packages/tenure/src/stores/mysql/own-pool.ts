import { TenureError } from '../../common/errors.ts'
import type { MysqlExecutor, MysqlPool } from './client.ts'
import { connectionSettings } from './statements.ts'

/** A connection with callbacks, as `createConnection` of `mysql2` returns it. */
export interface DriverConnection {
  connect(done: (error: Error | null) => void): void
  promise(): MysqlExecutor
  on(event: 'error' | 'end', listener: () => void): unknown
  destroy(): void
}

type LentConnection = Awaited<ReturnType<MysqlPool['getConnection']>>

/** The maximum number of connections. More calls wait until one is released. */
const maxConnections = 4

/**
 * The connections that the store opened itself. Unlike a pool of `mysql2`, it asks for the password again for each
 * connection, and an idle connection does not keep the process alive.
 */
export class OwnPool implements MysqlPool {
  readonly #open: () => Promise<DriverConnection>
  readonly #explain: (error: unknown) => Error
  readonly #idle = new Set<DriverConnection>()
  readonly #all = new Set<DriverConnection>()
  readonly #waiting: (() => void)[] = []
  #count = 0
  #isClosed = false

  /** `open` starts a connection, which need not be established yet. `explain` converts the error of one that failed. */
  constructor(open: () => Promise<DriverConnection>, explain: (error: unknown) => Error) {
    this.#open = open
    this.#explain = explain
  }

  async execute(sql: string, values: string[]): Promise<unknown> {
    const connection = await this.getConnection()
    try {
      return await connection.execute(sql, values)
    } finally {
      connection.release()
    }
  }

  async getConnection(): Promise<LentConnection> {
    for (;;) {
      if (this.#isClosed) throw isClosed()
      const [idle] = this.#idle
      if (idle) {
        this.#idle.delete(idle)
        return this.#lend(idle)
      }
      if (this.#count < maxConnections) return this.#lend(await this.#connect())
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
  }

  close(): void {
    this.#isClosed = true
    for (const connection of this.#all) this.#drop(connection)
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  async #connect(): Promise<DriverConnection> {
    this.#count += 1
    let connection: DriverConnection
    try {
      connection = await this.#open()
    } catch (error) {
      this.#count -= 1
      this.#waiting.shift()?.()
      throw error
    }
    this.#all.add(connection)
    const drop = () => this.#drop(connection)
    if (this.#isClosed) {
      drop()
      throw isClosed()
    }
    // Without a listener, losing an idle connection would end the process.
    connection.on('error', drop)
    connection.on('end', drop)
    try {
      await new Promise<void>((resolve, reject) => connection.connect((error) => (error ? reject(error) : resolve())))
      await connection.promise().execute(connectionSettings, [])
      return connection
    } catch (error) {
      drop()
      throw this.#explain(error)
    }
  }

  #lend(connection: DriverConnection): LentConnection {
    // The process waits for a call, but not for an idle connection.
    callStream(connection, 'ref')
    const executor = connection.promise()
    return {
      execute: (sql, values) => executor.execute(sql, values),
      release: () => {
        if (!this.#all.has(connection)) return
        callStream(connection, 'unref')
        this.#idle.add(connection)
        this.#waiting.shift()?.()
      },
      destroy: () => this.#drop(connection),
    }
  }

  #drop(connection: DriverConnection): void {
    if (!this.#all.delete(connection)) return
    this.#idle.delete(connection)
    this.#count -= 1
    connection.destroy()
    // The driver only ends its own direction. A server that is gone would never end the other one, and the socket would
    // keep the process alive.
    callStream(connection, 'destroy')
    this.#waiting.shift()?.()
  }
}

function isClosed(): TenureError {
  return new TenureError('STOPPED', 'The store is closed.')
}

/** Calls a method of the connection's socket, which the driver does not declare. */
function callStream(connection: DriverConnection, name: 'ref' | 'unref' | 'destroy'): void {
  const stream: unknown = Reflect.get(connection, 'stream')
  const method: unknown = typeof stream === 'object' && stream !== null && Reflect.get(stream, name)
  if (typeof method === 'function') method.call(stream)
}
