import { callWithin } from '@tenure/internal/bound'
import type { Clock } from '../../common/clock.ts'
import { isTenureError, TenureError } from '../../common/errors.ts'
import type { LeaseStatus, LeaseStore } from '../lease-store.ts'
import { checkFound } from '../store-calls.ts'

/** How to call a store once. */
export interface ReadOptions {
  readonly clock: Clock
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
}

/** Reads a lease, with the time that is left on the store's own clock if it has one. */
export function readLease(
  store: LeaseStore,
  election: string,
  { clock, timeoutMs, signal: ended }: ReadOptions,
): Promise<LeaseStatus> {
  const late = () =>
    new TenureError('TIMEOUT', `The store did not answer "read" for "${election}" within ${Math.ceil(timeoutMs)} ms.`, {
      retryable: true,
    })
  return callWithin(ended, { clock, timeoutMs, late }, async (signal) => {
    const call = { signal, timeoutMs }
    const status = store.look
      ? await store.look(election, call)
      : { record: await store.read(election, call), remainingMs: undefined }
    return { record: checkFound(status.record), remainingMs: status.remainingMs }
  })
}

/** Like {@link readLease}. Undefined if the record is not one that this library can read. */
export async function readSeat(
  store: LeaseStore,
  seat: string,
  options: ReadOptions,
): Promise<LeaseStatus | undefined> {
  try {
    return await readLease(store, seat, options)
  } catch (error) {
    if (isTenureError(error) && error.code === 'RECORD_INVALID') return undefined
    throw error
  }
}
