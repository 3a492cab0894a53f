import type { Elector } from 'tenure'

/** Whether another candidate is known to lead. */
export function isFollowing(elector: Elector): boolean {
  return !elector.isLeader() && isHeld(elector)
}

/** Whether anyone is known to hold a lease. */
export function isHeld(elector: Elector): boolean {
  const { leader, leaseEndsInMs = 0 } = elector.explain()
  return leader !== undefined && leaseEndsInMs > 0
}
