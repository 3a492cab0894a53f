import { invalidOption, TenureError } from '../common/errors.ts'
import { checkName } from '../common/names.ts'
import { checkMethods } from '../common/check-options.ts'
import { checkOptions } from '../common/check-options.ts'
import { checkTerm, staleTerm } from './term.ts'

/** The part of a connection that the guard needs. `PoolClient` of `pg` fits. */
export interface PostgresConnection {
  query(text: string, values?: unknown[]): Promise<{ rows: { [column: string]: unknown }[]; command: string }>
  /** With an error, the pool closes the connection instead of reusing it. */
  release(error?: Error): void
  on(event: 'error', listener: (error: Error) => void): unknown
  off(event: 'error', listener: (error: Error) => void): unknown
}

/** The part of a pool that the guard needs. `Pool` of `pg` fits. */
export interface PostgresPool<Connection extends PostgresConnection = PostgresConnection> {
  connect(): Promise<Connection>
  /** `pg` also has this overload. Declaring it here lets TypeScript infer the type of its connections. */
  connect(callback: never): void
}

/** Options of {@link postgresFence}. */
export interface PostgresFenceOptions<Connection extends PostgresConnection = PostgresConnection> {
  /** A pool, not a client, because each run needs a connection that nobody else uses. */
  readonly pool: PostgresPool<Connection>
  /** All writes under the same name share one highest term. Usually the name of the election. */
  readonly resource: string
  /** Where the highest terms are kept. Default: `tenure_fence`. */
  readonly table?: string | undefined
  /**
   * How long a transaction may be idle before PostgreSQL ends it, in milliseconds. Otherwise a paused leader that has
   * locked the guard's row would keep its successor waiting. Default: 10 000.
   */
  readonly idleTimeoutMs?: number | undefined
  /**
   * How long a run waits for the guard's row while another transaction has locked it, in milliseconds. A leader that is
   * paused while it reads a result is not idle, so only this option limits its successor's wait. Default: 30 000.
   */
  readonly lockTimeoutMs?: number | undefined
}

/** A guard that keeps its highest term as a row in the same database as the data. */
export interface PostgresFence<Connection extends PostgresConnection = PostgresConnection> {
  readonly resource: string
  /** The statement that creates the table, for a migration. */
  readonly schema: string
  /**
   * Runs `work` in a transaction that has locked the resource's row and found no higher term in it, then commits.
   * Rejects with `STALE_TERM` without calling `work` if there is a higher term, and with `TIMEOUT` if another
   * transaction keeps the row locked for longer than `lockTimeoutMs`. When `work` throws, everything is rolled back.
   *
   * Every statement must use the connection passed to `work`, which must not commit or roll back. If the connection is
   * lost during the commit, the outcome is unknown: the driver's error is thrown, and the work may have been committed.
   */
  run<T>(term: number, work: (connection: Connection) => Promise<T>): Promise<T>
}

const identifier = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/
const longestMs = 2 ** 31 - 1

/**
 * A guard for updates in PostgreSQL. The check and the update are one transaction, and the row of the highest term
 * stays locked until it ends. So two terms can never write at the same time or in the wrong order.
 *
 * @example
 * const fence = postgresFence({ pool, resource: 'payments' })
 * await pool.query(fence.schema) // once, in a migration
 *
 * await fence.run(leadership.term, async (connection) => {
 *   await connection.query('update accounts set balance = balance - $1 where id = $2', [amount, id])
 * })
 */
export function postgresFence<Connection extends PostgresConnection = PostgresConnection>(
  options: PostgresFenceOptions<Connection>,
): PostgresFence<Connection> {
  checkOptions('postgresFence()', options, {
    pool: true,
    resource: true,
    table: true,
    idleTimeoutMs: true,
    lockTimeoutMs: true,
  })
  const { pool, resource, table = 'tenure_fence', idleTimeoutMs = 10_000, lockTimeoutMs = 30_000 } = options
  checkMethods('pool', pool, ['connect'], 'a pool such as that of "pg"')
  checkName('resource', resource)
  for (const [name, ms] of Object.entries({ idleTimeoutMs, lockTimeoutMs })) {
    if (Number.isInteger(ms) && ms >= 1 && ms <= longestMs) continue
    throw invalidOption(name, ms, 'it must be a whole number from 1 to 2^31 - 1')
  }
  const quotedTable = quote(table)
  // Only the wait for the guard's row is limited. The session's own setting is restored before the work runs.
  const begin =
    `begin; set local idle_in_transaction_session_timeout = ${idleTimeoutMs}; ` +
    `select set_config('tenure.lock_timeout', current_setting('lock_timeout'), true); ` +
    `set local lock_timeout = ${lockTimeoutMs}`
  // The update is unconditional, so that it always locks the row, waits for its holder, and returns its value.
  const raise =
    `insert into ${quotedTable} as fence (resource, term) values ($1, $2::bigint) ` +
    `on conflict (resource) do update set term = greatest(fence.term, excluded.term) returning term::text as highest, ` +
    `set_config('lock_timeout', current_setting('tenure.lock_timeout'), true) as restored`

  async function runOn<T>(connection: Connection, term: number, work: (connection: Connection) => Promise<T>) {
    await connection.query(begin)
    const { rows } = await connection.query(raise, [resource, term]).catch((error: unknown) => {
      throw stateOf(error) === '55P03' ? isLocked(resource, term, lockTimeoutMs, error) : error
    })
    const highest = String(rows[0]?.['highest'])
    if (highest !== String(term)) throw staleTerm(resource, term, highest)
    const result = await work(connection)
    const { command } = await connection.query('commit')
    // After a failed statement, PostgreSQL answers a commit with a rollback and reports no error.
    if (command === 'COMMIT') return result
    const message = `The work on "${resource}" ignored a failed statement, so PostgreSQL rolled back the transaction.`
    throw new TenureError('WORK_FAILED', message)
  }

  return {
    resource,
    schema: `create table if not exists ${quotedTable} (resource text primary key, term bigint not null check (term > 0))`,
    async run(term, work) {
      checkTerm('term', term)
      if (typeof work !== 'function') throw invalidOption('work', work, 'it must be a function')
      const connection = await pool.connect()
      let broken: Error | undefined
      // Without a listener, a connection lost between two statements would end the process.
      const onError = (error: Error) => {
        broken = error
      }
      connection.on('error', onError)
      try {
        return await runOn(connection, term, work)
      } catch (error) {
        await connection.query('rollback').catch((cause: Error) => {
          broken ??= cause
        })
        throw error
      } finally {
        connection.release(broken)
        connection.off('error', onError)
      }
    },
  }
}

function isLocked(resource: string, term: number, ms: number, cause: unknown): TenureError {
  const text = `Another transaction has kept the row of "${resource}" locked for more than ${ms} ms, so nothing was written in term ${term}. Retry. If this persists, a former leader may be paused in its transaction: find its session in pg_stat_activity (wait_event ClientWrite, or idle in transaction) and end it with pg_terminate_backend(pid).`
  return new TenureError('TIMEOUT', text, { retryable: true, cause })
}

/** The SQLSTATE of a server error. */
function stateOf(error: unknown): unknown {
  return error instanceof Error ? Reflect.get(error, 'code') : undefined
}

function quote(table: unknown): string {
  const parts = typeof table === 'string' ? table.split('.') : []
  if (parts.length >= 1 && parts.length <= 2 && parts.every((part) => identifier.test(part))) {
    return parts.map((part) => `"${part}"`).join('.')
  }
  throw invalidOption('table', table, 'it must be "table" or "schema.table" of letters, digits and underscores')
}
