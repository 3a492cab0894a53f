import { createConnection, type Connection, type Pool, type RowDataPacket } from 'mysql2/promise'
import { expect } from 'vitest'
import type { AcquireClaim, LeaseRecord, Outcome } from '../../../src/engine/lease-store.ts'

export const call = { signal: new AbortController().signal, timeoutMs: 10_000 }
/** Leaves two seconds for locks, and one for the answer. */
export const short = { ...call, timeoutMs: 3_000 }
export const late = { ...call, timeoutMs: 150 }

export function claimOf(change: Partial<AcquireClaim> = {}): AcquireClaim {
  const claim = { election: 'payments', holder: 'ada', attempt: 'first', leaseDurationMs: 15_000, afterTerm: 0 }
  return { ...claim, metadata: {}, ...change }
}

export function granted(outcome: Outcome): LeaseRecord {
  if (!outcome.ok) throw new Error(`the call was refused: ${JSON.stringify(outcome)}`)
  return outcome.record
}

/** A connection of other code. */
export async function connectTo(uri: string): Promise<Connection> {
  const connection = await createConnection({ uri })
  connection.on('error', () => {})
  return connection
}

/** Resolves once this many transactions wait for a lock on a row. */
export async function waitingForLocks(pool: Pool, count: number): Promise<void> {
  // Unlike the tables with transactions and locks, this is the state of now, not a copy that may be 100 ms old.
  const waiting = async () => {
    const [rows] = await pool.query<RowDataPacket[]>(`show global status like 'innodb_row_lock_current_waits'`)
    return Number(rows[0]?.['Value'])
  }
  await expect.poll(waiting, { interval: 20, timeout: 5_000 }).toBe(count)
}
