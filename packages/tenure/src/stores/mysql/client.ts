import type { CallBound } from '../../common/call-bound.ts'
import { invalidOption, optionError, TenureError } from '../../common/errors.ts'
import { isUsableAfter } from './failures.ts'
import { within, type MysqlStatement } from './statements.ts'

/** A row as clients return it. The store's statements return every column as text. */
export type MysqlRow = { readonly [column: string]: unknown }

/**
 * Anything that runs a statement with parameters written as `?`: a pool or connection of `mysql2/promise`, or a
 * three-line adapter. A query resolves with its rows, and a write with the number of affected rows or an object with
 * `affectedRows`. Either may be the first element of an array, as `mysql2` returns them.
 */
export interface MysqlExecutor {
  execute(sql: string, values: string[]): PromiseLike<unknown>
}

/** A pool or connection of `mysql2` with callbacks. */
export interface MysqlCallbackClient {
  promise(): MysqlExecutor
}

/** The types that {@link mysqlStore} accepts as its client. */
export type MysqlClient = MysqlExecutor | MysqlCallbackClient

/** The part of a pool that the store needs, so that no later call gets a connection on which an earlier one hangs. */
export interface MysqlPool extends MysqlExecutor {
  getConnection(): Promise<MysqlPoolConnection>
}

interface MysqlPoolConnection extends MysqlExecutor {
  release(): void
  destroy(): void
}

/** The answer to a statement: the rows of a query, or how many rows a write changed. */
export interface MysqlAnswer {
  readonly rows: readonly MysqlRow[]
  readonly affected: number
}

/** Runs one statement, and rejects if `bound` ends first. If `check` throws, the connection is not used again. */
export type StatementRunner = (
  statement: MysqlStatement,
  values: string[],
  bound: CallBound,
  check?: (answer: MysqlAnswer) => void,
) => Promise<MysqlAnswer>

/** Returns a function that runs statements on a client. */
export function runOn(client: MysqlClient): StatementRunner {
  const executor = 'promise' in client && typeof client.promise === 'function' ? client.promise() : client
  if (!('execute' in executor)) throw notClient(client)
  if (isPool(executor)) return (...call) => runOnPool(executor, ...call)
  return async (statement, values, bound, check) => {
    const text = within(statement, bound.leftMs)
    const answer = answerOf(await bound.race(Promise.resolve(executor.execute(text, values))))
    check?.(answer)
    return answer
  }
}

/** Throws if the value cannot run statements. */
export function checkClient(client: unknown): asserts client is MysqlClient {
  const holder = (typeof client === 'object' && client !== null) || typeof client === 'function'
  if (!holder || typeof Reflect.get(client, 'execute') !== 'function') throw notClient(client)
}

function notClient(client: unknown): Error {
  const kinds = 'a pool or connection from "mysql2", or anything with execute(sql, values)'
  if (client === undefined) {
    return optionError({ option: 'client' }, `mysqlStore() needs the option "client": ${kinds}.`)
  }
  const byUrl = typeof client === 'string' ? ': use createPool(url) of "mysql2" or openStore(url)' : ''
  return invalidOption('client', client, `it must be ${kinds}${byUrl}`)
}

function isPool(client: MysqlExecutor): client is MysqlPool {
  return 'getConnection' in client && typeof client.getConnection === 'function'
}

async function runOnPool(
  pool: MysqlPool,
  statement: MysqlStatement,
  values: string[],
  bound: CallBound,
  check?: (answer: MysqlAnswer) => void,
): Promise<MysqlAnswer> {
  const connecting = pool.getConnection()
  let connection: MysqlPoolConnection
  try {
    connection = await bound.race(connecting)
  } catch (error) {
    // The pool was exhausted. An abandoned call must not be sent when a connection becomes available.
    connecting.then(
      (late) => late.release(),
      () => {},
    )
    throw error
  }
  let isUsable = true
  try {
    const text = within(statement, bound.leftMs)
    const answer = answerOf(await bound.race(Promise.resolve(connection.execute(text, values))))
    check?.(answer)
    return answer
  } catch (error) {
    isUsable = isUsableAfter(error)
    throw error
  } finally {
    if (isUsable) connection.release()
    // The next call must neither wait behind this one nor reach the same server.
    else connection.destroy()
  }
}

/** Reads an answer in any of the forms that clients return. */
function answerOf(given: unknown): MysqlAnswer {
  const first: unknown = Array.isArray(given) ? given[0] : undefined
  const result = Array.isArray(first) || isHeader(first) ? first : given
  if (Array.isArray(result)) return { rows: result.map(textRow), affected: 0 }
  if (typeof result === 'number' || typeof result === 'bigint') return { rows: [], affected: Number(result) }
  if (!isHeader(result)) {
    const text =
      'The client returned neither rows nor the number of affected rows. Let execute(sql, values) resolve with the rows of a query, and with the number of affected rows of a write.'
    throw optionError({ option: 'client' }, text)
  }
  if ((Number(result.serverStatus ?? 0) & inTransaction) !== 0) throw isInTransaction()
  return { rows: [], affected: Number(result.affectedRows) }
}

/** Some clients are configured to return text as bytes. */
function textRow(row: MysqlRow): MysqlRow {
  const isText = ([, value]: [string, unknown]) => !Buffer.isBuffer(value)
  const entries = Object.entries(row)
  if (entries.every(isText)) return row
  return Object.fromEntries(entries.map(([name, value]) => [name, Buffer.isBuffer(value) ? value.toString() : value]))
}

interface Header {
  readonly affectedRows: unknown
  /** The server's status flags, if the client reports them. */
  readonly serverStatus?: unknown
}

/** The flag of an open transaction in a server's status. */
const inTransaction = 1

function isHeader(result: unknown): result is Header {
  return typeof result === 'object' && result !== null && 'affectedRows' in result
}

/** The error for a write that could be rolled back, and for a read in a transaction of other code. */
export function isInTransaction(): TenureError {
  const text =
    "Other code opened a transaction on the store's connection, so its grants could be rolled back. Pass a pool to the store, or a connection that nothing else uses."
  return new TenureError('UNSAFE_SETTINGS', text, { retryable: true })
}
