import type { KnownLease } from '../election-state.ts'
import type { LeaseStatus } from '../lease-store.ts'
import { hasExpired, nothingObserved, observeRecord } from '../observed-expiry.ts'

/**
 * Seats: the presence of a member is a lease on one of the elections `<group>.member.<n>`. A seat is a lease like any
 * other, so I1 to I5 of `election.ts` hold for it: no two live members share a seat. This file only decides which seat is worth
 * a try. A wrong choice costs a refused call, because the store compares the version and the term that were seen.
 */

/** How many seats a group has by default. */
export const defaultMaxMembers = 32

/** A seat about which nothing is known. */
export const unknownSeat: KnownLease = { ...nothingObserved, view: undefined }

/** The election whose lease is a seat. Its name has only characters that no store must encode. */
export function seatName(group: string, seat: number): string {
  return `${group}.member.${seat}`
}

/**
 * Adds the answer to a read of a seat. I2: the duration of a version counts from when this process first saw it, on its own
 * clock. A version that is seen for the first time starts again, whatever was known before.
 */
export function observeSeat(
  known: KnownLease,
  { record, remainingMs }: LeaseStatus,
  at: { readonly nowMs: number; readonly ownDurationMs: number },
): KnownLease {
  // A seat that was never written is free. A seat whose record was deleted counts as held, like any lease.
  if (!record && known.highestTerm === 0 && !known.view) return known
  const observed = observeRecord(known, { record, watched: false, ...at })
  // A store with its own clock decides expiry. It reports when a try is worthwhile.
  const isTimed = record !== undefined && !record.released && remainingMs !== undefined
  const retryAtMs = isTimed ? at.nowMs + remainingMs : undefined
  // A handover by name does not apply to seats.
  const view = observed.view && { ...observed.view, retryAtMs, blockedUntilMs: undefined, isOldRelease: false }
  return { ...observed, view }
}

/** Whether a member holds the seat, as far as is known. Otherwise the seat is free, released, or expired. */
export function isTaken({ view }: KnownLease, nowMs: number): boolean {
  if (!view || view.record?.released) return false
  return !hasExpired(view, nowMs) && (view.retryAtMs === undefined || nowMs < view.retryAtMs)
}
