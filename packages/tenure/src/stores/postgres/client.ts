import { invalidOption, optionError } from '../../errors.ts'
import type { Bound } from '../../http/bound.ts'
import { isUsableAfter } from './failures.ts'
import { standing, unreleased } from './standing.ts'
import type { Statement } from './statements.ts'

/** A row as clients give it. Every column that is asked for is a text. */
export type PostgresRow = { readonly [column: string]: unknown }

/** What clients answer: an object with the rows, or the rows themselves. */
export type PostgresRows = { readonly rows: readonly PostgresRow[] } | readonly PostgresRow[]

/**
 * Anything that runs a statement with `$1`, `$2`, ... in it: `Client` and `Pool` of `pg`, Neon, PGlite, or an adapter of
 * three lines.
 */
export interface PostgresQueryClient {
  query(text: string, values: (string | null)[]): PromiseLike<PostgresRows>
}

/** The `sql` of `postgres`. */
export interface PostgresSqlClient {
  unsafe(text: string, values: (string | null)[]): PromiseLike<PostgresRows>
}

/** What {@link postgresStore} takes as its client. */
export type PostgresClient = PostgresQueryClient | PostgresSqlClient

/** What the store needs of a pool to give no later call a connection on which one still hangs. */
interface Pool {
  readonly options?: { readonly max?: unknown }
  connect(): Promise<PooledConnection>
}

interface PooledConnection extends PostgresQueryClient {
  release(error?: Error): void
  on(event: 'error', listener: (error: Error) => void): unknown
  off(event: 'error', listener: (error: Error) => void): unknown
}

/**
 * Runs one statement, for no longer than its bound. Where `check` throws, its connection is of no more use than one that
 * broke.
 */
export type Run = (
  statement: Statement,
  values: (string | null)[],
  bound: Bound,
  check?: (rows: readonly PostgresRow[]) => void,
) => Promise<readonly PostgresRow[]>

/** How statements are run on a client. */
export function runOn(client: PostgresClient): Run {
  if (isPool(client)) return (...call) => runOnPool(client, ...call)
  const sender = senderOf(client)
  // What has a connection to open is a single one.
  const send: Send = 'connect' in client ? inTurn(sender) : sender
  return async (statement, values, bound, check) => {
    checkConnected(client)
    const rows = await bound.race(send(statement, values, bound))
    check?.(rows)
    return rows
  }
}

/** How a client is given a statement. */
export type Sender = (statement: Statement, values: (string | null)[]) => Promise<readonly PostgresRow[]>

/** Gives a statement to a client, unless its caller does not wait for it any more. */
export type Send = (statement: Statement, values: (string | null)[], bound: Bound) => Promise<readonly PostgresRow[]>

/** One statement after another, as a single connection takes them. One that was given up meanwhile is never sent. */
export function inTurn(sender: Sender): Send {
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

/** The usual sender: statements without a name. */
export function senderOf(client: PostgresClient): Sender {
  // Neon's has an `unsafe` too, which is something else.
  if ('query' in client) {
    const look = (text: string) => client.query(text, [])
    return async ({ text }, values) => standing(client, () => client.query(text, values), look)
  }
  return async ({ text }, values) => unreleased(await client.unsafe(text, values), (look) => client.unsafe(look, []))
}

/** Refuses what cannot run statements. */
export function checkClient(client: unknown): asserts client is PostgresClient {
  const holder = (typeof client === 'object' && client !== null) || typeof client === 'function'
  if (holder && ['query', 'unsafe'].some((method) => typeof Reflect.get(client, method) === 'function')) return
  const kinds = 'a Pool or Client of "pg", the sql of "postgres", or anything with query(text, values)'
  if (client === undefined) {
    throw optionError({ option: 'client' }, `postgresStore() needs option "client", ${kinds}, or option "connect".`)
  }
  const byUrl = typeof client === 'string' ? ': new Pool({ connectionString: url }), or openStore(url) alone' : ''
  throw invalidOption('client', client, `it must be ${kinds}${byUrl}`)
}

/** A `Client` of `pg` keeps statements until it is connected, for ever if nobody does that. */
export function checkConnected(client: object): void {
  const isIdle = ['_connecting', '_connected'].every((name) => Reflect.get(client, name) === false)
  if (!isIdle) return
  const advice = 'await client.connect() first, or give the store a Pool.'
  throw optionError({ option: 'client', advice }, `The Client of "pg" is not connected: ${advice}`)
}

/** A `Client` of `pg` has `connect` too, which gives nothing. */
export function isPool(client: object): client is PostgresClient & Pool {
  return 'totalCount' in client && 'connect' in client && typeof client.connect === 'function'
}

async function runOnPool(
  pool: Pool,
  { text }: Statement,
  values: (string | null)[],
  bound: Bound,
  check?: (rows: readonly PostgresRow[]) => void,
): Promise<readonly PostgresRow[]> {
  const connecting = pool.connect()
  let connection: PooledConnection
  try {
    connection = await bound.race(connecting)
  } catch (error) {
    // Where the pool was drained: a call that was given up must not be sent when its turn comes.
    connecting.then(
      (late) => late.release(),
      () => {},
    )
    throw error
  }
  let broken: Error | undefined
  // Without a listener, a connection that is lost meanwhile would end the process.
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
    // The pool closes it. The next call is not to wait behind this one, nor to meet the same server.
    if (!isUsableAfter(error)) broken ??= error instanceof Error ? error : new Error(String(error))
    throw error
  } finally {
    connection.release(broken)
    connection.off('error', onError)
  }
}
