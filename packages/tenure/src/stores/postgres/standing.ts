import { TenureError } from '../../errors.ts'
import type { PostgresRows } from './client.ts'

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
 * Asks for an answer that stands. Two do not:
 * - What was written in a transaction that somebody else opened could be rolled back, and what was read in it be old;
 *   clients of `pg` know whether there is one.
 * - A commit whose wait for a synchronous standby was cancelled is there and can be lost by a failover. The server confirms
 *   it, and only warns; clients of `pg` pass that on, before the answer.
 */
export async function standing(client: object, ask: () => PromiseLike<PostgresRows>): Promise<PostgresRows> {
  let cancelled: string | undefined
  const listener = (notice: Notice) => {
    if (isCancelledWait(notice)) cancelled = notice.code
  }
  if (!isNoticing(client)) return committed(client, await ask())
  client.on('notice', listener)
  try {
    const answer = committed(client, await ask())
    if (cancelled !== undefined) throw notWaitedFor(cancelled)
    return answer
  } finally {
    client.off('notice', listener)
  }
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

function notWaitedFor(code: string): TenureError {
  const text = `PostgreSQL was told not to wait for its standby any more (${code}). What it has written could be lost by a failover: whether it was done is not known.`
  return new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true })
}
