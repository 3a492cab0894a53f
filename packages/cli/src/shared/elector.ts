import type { Elector } from 'tenure'

/** Returns whether another candidate is known to lead. */
export function isFollowing(elector: Elector): boolean {
  return !elector.isLeader() && isLeaseHeld(elector)
}

/** Returns whether any candidate is known to hold a lease. */
export function isLeaseHeld(elector: Elector): boolean {
  const { leader, leaseEndsInMs = 0 } = elector.explain()
  return leader !== undefined && leaseEndsInMs > 0
}
