import { isSameConfiguration, lookAgain } from '@tenure/internal/postgres-waits'
import { TenureError } from '../../common/errors.ts'
import type { PostgresRow, PostgresRows } from './client.ts'

/** A notice that a server sends with its answer, as clients of `pg` forward it. */
interface Notice {
  /** The SQLSTATE. */
  readonly code?: string | undefined
  /** The server's source file that produced the notice. */
  readonly file?: string | undefined
}

interface Noticing {
  on(event: 'notice', listener: (notice: Notice) => void): unknown
  off(event: 'notice', listener: (notice: Notice) => void): unknown
}

/**
 * Runs a statement and returns its answer only if it is final. Three kinds of answer are not:
 * - A write inside a transaction that other code opened could be rolled back, and a read in it could be stale. Clients
 *   of `pg` know whether a transaction is open.
 * - A commit whose wait for a synchronous standby was canceled is visible, but a failover can lose it. The server
 *   confirms the commit with only a warning, which clients of `pg` forward before the answer.
 * - A commit was released from that wait because `synchronous_standby_names` was emptied. See {@link checkReplicated}.
 */
export async function standing(
  client: object,
  ask: () => PromiseLike<PostgresRows>,
  look: PlainQuery,
): Promise<readonly PostgresRow[]> {
  let cancelled: string | undefined
  const listener = (notice: Notice) => {
    if (isCancelledWait(notice)) cancelled = notice.code
  }
  if (!isNoticing(client)) return checkReplicated(committed(client, await ask()), look)
  client.on('notice', listener)
  try {
    const answer = committed(client, await ask())
    if (cancelled !== undefined) throw notWaitedFor(cancelled)
    return await checkReplicated(answer, look)
  } finally {
    client.off('notice', listener)
  }
}

/** Sends a statement without parameters, on the same connection if the client has only one. */
export type PlainQuery = (text: string) => PromiseLike<PostgresRows>

/**
 * Returns the rows once it is certain that the commit was not released from its wait for a standby. The server confirms
 * such a commit as if the standby had it. Costs one more round trip, only for writes and only if the server waits for a
 * standby.
 */
export async function checkReplicated(answer: PostgresRows, look: PlainQuery): Promise<readonly PostgresRow[]> {
  const rows = rowsOf(answer)
  const before: unknown = rows[0]?.['waited']
  if (typeof before !== 'string') return rows
  const [seen] = rowsOf(await look(lookAgain))
  if (!isSameConfiguration(before, String(seen?.['waited']))) throw released()
  return rows
}

/** The rows in either form that clients return. */
function rowsOf(answer: PostgresRows): readonly PostgresRow[] {
  return 'rows' in answer ? answer.rows : answer
}

function isNoticing(client: object): client is Noticing {
  return ['on', 'off'].every((name) => typeof Reflect.get(client, name) === 'function')
}

/**
 * Recognizes the warning by its class, because the text is in the server's language. The file rules out other warnings,
 * if the client reports it.
 */
function isCancelledWait({ code = '', file = 'syncrep.c' }: Notice): boolean {
  return (code.startsWith('01') || code.startsWith('57')) && file === 'syncrep.c'
}

function committed(client: object, answer: PostgresRows): PostgresRows {
  const ask: unknown = Reflect.get(client, 'getTransactionStatus')
  const status: unknown = typeof ask === 'function' ? ask.call(client) : undefined
  if (status !== 'T' && status !== 'E') return answer
  const text =
    "Other code opened a transaction on the store's connection, so its grants could be rolled back. Pass a Pool to the store, or a connection that nothing else uses."
  throw new TenureError('UNSAFE_SETTINGS', text, { retryable: true })
}

function released(): TenureError {
  const text =
    "PostgreSQL's configuration was reloaded while this write waited for its standby, which can end that wait early. A failover could lose this write, so its outcome is unknown."
  return new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true })
}

function notWaitedFor(code: string): TenureError {
  const text = `PostgreSQL stopped waiting for its standby (${code}). A failover could lose this write, so its outcome is unknown.`
  return new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true })
}
