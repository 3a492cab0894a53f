import type { Elector } from 'tenure'

/** Whether somebody else leads, as far as is known. */
export function isFollowing(elector: Elector): boolean {
  return !elector.isLeader() && isHeld(elector)
}

/** Whether a lease runs, as far as is known. */
export function isHeld(elector: Elector): boolean {
  const { leader, leaseEndsInMs = 0 } = elector.explain()
  return leader !== undefined && leaseEndsInMs > 0
}
