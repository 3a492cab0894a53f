import { isSameConfiguration, lookAgain } from '@tenure/internal/postgres-waits'
import { TenureError } from '../../errors.ts'
import type { PostgresRow, PostgresRows } from './client.ts'

/** What a server says beside its answer, as clients of `pg` pass it on. */
interface Notice {
  /** The SQLSTATE. */
  readonly code?: string | undefined
  /** Where in the server's own source it was said. */
  readonly file?: string | undefined
}

interface Noticing {
  on(event: 'notice', listener: (notice: Notice) => void): unknown
  off(event: 'notice', listener: (notice: Notice) => void): unknown
}

/**
 * Asks for an answer that stands. Three do not:
 * - What was written in a transaction that somebody else opened could be rolled back, and what was read in it be old;
 *   clients of `pg` know whether there is one.
 * - A commit whose wait for a synchronous standby was cancelled is there and can be lost by a failover. The server confirms
 *   it, and only warns; clients of `pg` pass that on, before the answer.
 * - A commit that was released from that wait, because `synchronous_standby_names` was emptied: see {@link unreleased}.
 */
export async function standing(
  client: object,
  ask: () => PromiseLike<PostgresRows>,
  look: Look,
): Promise<readonly PostgresRow[]> {
  let cancelled: string | undefined
  const listener = (notice: Notice) => {
    if (isCancelledWait(notice)) cancelled = notice.code
  }
  if (!isNoticing(client)) return unreleased(committed(client, await ask()), look)
  client.on('notice', listener)
  try {
    const answer = committed(client, await ask())
    if (cancelled !== undefined) throw notWaitedFor(cancelled)
    return await unreleased(answer, look)
  } finally {
    client.off('notice', listener)
  }
}

/** Sends a statement without parameters, over the same connection where the client has only one. */
export type Look = (text: string) => PromiseLike<PostgresRows>

/**
 * The rows, once it is certain that the commit was not released from its wait for a standby: the server confirms it as if
 * the standby had it. One more round trip, only for a write and only where the server waits for a standby.
 */
export async function unreleased(answer: PostgresRows, look: Look): Promise<readonly PostgresRow[]> {
  const rows = rowsOf(answer)
  const before: unknown = rows[0]?.['waited']
  if (typeof before !== 'string') return rows
  const [seen] = rowsOf(await look(lookAgain))
  if (!isSameConfiguration(before, String(seen?.['waited']))) throw released()
  return rows
}

/** The rows, whichever way a client gives them. */
function rowsOf(answer: PostgresRows): readonly PostgresRow[] {
  return 'rows' in answer ? answer.rows : answer
}

function isNoticing(client: object): client is Noticing {
  return ['on', 'off'].every((name) => typeof Reflect.get(client, name) === 'function')
}

/** By its class: the words are in the server's language. Other warnings come from elsewhere, where that is said. */
function isCancelledWait({ code = '', file = 'syncrep.c' }: Notice): boolean {
  return (code.startsWith('01') || code.startsWith('57')) && file === 'syncrep.c'
}

function committed(client: object, answer: PostgresRows): PostgresRows {
  const ask: unknown = Reflect.get(client, 'getTransactionStatus')
  const status: unknown = typeof ask === 'function' ? ask.call(client) : undefined
  if (status !== 'T' && status !== 'E') return answer
  const text =
    'Somebody has opened a transaction on the connection that the store uses: what it grants could be rolled back. Give the store a Pool, or a connection that nothing else uses.'
  throw new TenureError('UNSAFE_SETTINGS', text, { retryable: true })
}

function released(): TenureError {
  const text =
    'The configuration of PostgreSQL was reloaded while this write waited for its standby, which can end that wait early. A failover could lose this write, so its outcome is unknown.'
  return new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true })
}

function notWaitedFor(code: string): TenureError {
  const text = `PostgreSQL was told not to wait for its standby any more (${code}). What it has written could be lost by a failover: whether it was done is not known.`
  return new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true })
}
