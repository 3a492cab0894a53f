import { invalidOption, optionError } from '../../common/errors.ts'
import type { CallBound } from '../../common/call-bound.ts'
import { isUsableAfter } from './failures.ts'
import { standing, checkReplicated } from './commit-check.ts'
import type { Statement } from './statements.ts'

/** A row as clients return it. The store's statements return every column as text. */
export type PostgresRow = { readonly [column: string]: unknown }

/** The result of a client: an object with the rows, or the rows themselves. */
export type PostgresRows = { readonly rows: readonly PostgresRow[] } | readonly PostgresRow[]

/**
 * Anything that runs a statement with parameters such as `$1` and `$2`: `Client` and `Pool` of `pg`, Neon, PGlite, or a
 * three-line adapter.
 */
export interface PostgresQueryClient {
  query(text: string, values: (string | null)[]): PromiseLike<PostgresRows>
}

/** The `sql` of `postgres`. */
export interface PostgresSqlClient {
  unsafe(text: string, values: (string | null)[]): PromiseLike<PostgresRows>
}

/** The types that {@link postgresStore} accepts as its client. */
export type PostgresClient = PostgresQueryClient | PostgresSqlClient

/**
 * The part of a pool that the store needs, so that no later call gets a connection on which an earlier call still
 * hangs.
 */
interface Pool {
  readonly options?: { readonly max?: unknown }
  connect(): Promise<PooledConnection>
}

interface PooledConnection extends PostgresQueryClient {
  release(error?: Error): void
  on(event: 'error', listener: (error: Error) => void): unknown
  off(event: 'error', listener: (error: Error) => void): unknown
}

/** Runs one statement, and rejects if `bound` ends first. If `check` throws, the connection is treated as broken. */
export type Run = (
  statement: Statement,
  values: (string | null)[],
  bound: CallBound,
  check?: (rows: readonly PostgresRow[]) => void,
) => Promise<readonly PostgresRow[]>

/** Returns a function that runs statements on a client. */
export function runOn(client: PostgresClient): Run {
  if (isPool(client)) return (...call) => runOnPool(client, ...call)
  const sender = senderOf(client)
  // A client that has `connect` is a single connection.
  const send: Send = 'connect' in client ? sequentially(sender) : sender
  return async (statement, values, bound, check) => {
    checkConnected(client)
    const rows = await bound.race(send(statement, values, bound))
    check?.(rows)
    return rows
  }
}

/** Sends a statement to a client. */
export type Sender = (statement: Statement, values: (string | null)[]) => Promise<readonly PostgresRow[]>

/** Sends a statement to a client, unless its caller no longer waits for it. */
export type Send = (
  statement: Statement,
  values: (string | null)[],
  bound: CallBound,
) => Promise<readonly PostgresRow[]>

/**
 * Sends statements one after another, because a single connection requires it. A statement that was abandoned while
 * queued is never sent.
 */
export function sequentially(sender: Sender): Send {
  let last: Promise<unknown> = Promise.resolve()
  return (statement, values, bound) => {
    const answer = last.then(() => {
      if (bound.ended) throw bound.reason
      return sender(statement, values)
    })
    last = answer.catch(() => {})
    return answer
  }
}

/** The default sender, without prepared statements. */
export function senderOf(client: PostgresClient): Sender {
  // Neon's client also has an `unsafe`, with another meaning.
  if ('query' in client) {
    const look = (text: string) => client.query(text, [])
    return async ({ text }, values) => standing(client, () => client.query(text, values), look)
  }
  return async ({ text }, values) =>
    checkReplicated(await client.unsafe(text, values), (look) => client.unsafe(look, []))
}

/** Throws if the value cannot run statements. */
export function checkClient(client: unknown): asserts client is PostgresClient {
  const holder = (typeof client === 'object' && client !== null) || typeof client === 'function'
  if (holder && ['query', 'unsafe'].some((method) => typeof Reflect.get(client, method) === 'function')) return
  const kinds = 'a Pool or Client from "pg", the sql from "postgres", or anything with query(text, values)'
  if (client === undefined) {
    throw optionError(
      { option: 'client' },
      `postgresStore() needs the option "client" (${kinds}) or the option "connect".`,
    )
  }
  const byUrl = typeof client === 'string' ? ': use new Pool({ connectionString: url }) or openStore(url)' : ''
  throw invalidOption('client', client, `it must be ${kinds}${byUrl}`)
}

/** Throws if a `Client` of `pg` is not connected. It would queue statements until it is, possibly forever. */
export function checkConnected(client: object): void {
  const isIdle = ['_connecting', '_connected'].every((name) => Reflect.get(client, name) === false)
  if (!isIdle) return
  const advice = 'await client.connect() first, or pass a Pool.'
  throw optionError({ option: 'client', advice }, `The Client of "pg" is not connected: ${advice}`)
}

/** True for a pool. A `Client` of `pg` also has `connect`, but it returns nothing. */
export function isPool(client: object): client is PostgresClient & Pool {
  return 'totalCount' in client && 'connect' in client && typeof client.connect === 'function'
}

async function runOnPool(
  pool: Pool,
  { text }: Statement,
  values: (string | null)[],
  bound: CallBound,
  check?: (rows: readonly PostgresRow[]) => void,
): Promise<readonly PostgresRow[]> {
  const connecting = pool.connect()
  let connection: PooledConnection
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
  let broken: Error | undefined
  // Without a listener, losing the connection would end the process.
  const onError = (error: Error) => {
    broken = error
  }
  connection.on('error', onError)
  try {
    const query = () => connection.query(text, values)
    const rows = await bound.race(standing(connection, query, (look) => connection.query(look, [])))
    check?.(rows)
    return rows
  } catch (error) {
    // Let the pool close the connection. The next call must neither wait behind this one nor reach the same server.
    if (!isUsableAfter(error)) broken ??= error instanceof Error ? error : new Error(String(error))
    throw error
  } finally {
    connection.release(broken)
    connection.off('error', onError)
  }
}
