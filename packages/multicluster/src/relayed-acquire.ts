/** How a relay forwards an acquire, and what it makes of the answer. Pure: `explore()` runs the same functions. */
import { absentVersion, type AcquireClaim, type LeaseRecord, type Outcome } from 'tenure'
import type { GlobalAnswer } from './global-call.ts'
import { expiredVersionOf, leftMs, type ElectionSights } from './observed-versions.ts'

/** Returns the claim with the version that this relay has watched expire, if there is one. */
export function passedOn(seen: ElectionSights, claim: AcquireClaim, nowMs: number): AcquireClaim {
  const watched = expiredVersionOf(seen, nowMs)
  return watched === undefined ? claim : { ...claim, expiredVersion: watched }
}

/**
 * After a refusal, returns the candidate's own claim if that one could be granted. The candidate may have watched another
 * version expire than this relay did, for example when it saw the record vanish.
 */
export function askedAgain(asked: AcquireClaim, passed: AcquireClaim, outcome: Outcome): AcquireClaim | undefined {
  const own = asked.expiredVersion
  const isOthers = !outcome.ok && own !== undefined && own !== passed.expiredVersion
  return isOthers && own === (outcome.record?.version ?? absentVersion) ? asked : undefined
}

/** Returns what an answer shows about the election. `leaseMs` is the lease duration of the candidate that asked. */
export function shownBy({ outcome, found }: GlobalAnswer, leaseMs: number | undefined) {
  const refused = outcome?.ok === false ? outcome : undefined
  const record: LeaseRecord | undefined = outcome ? outcome.record : found
  const absentForMs = Math.max(refused?.retryAfterMs ?? 0, leaseMs ?? 0)
  return { record, absentForMs, highestTerm: refused?.highestTerm }
}

/** Returns when the candidate should try again, for stores that do not report it. */
export function retryAfterMs(seen: ElectionSights, outcome: Outcome, nowMs: number): number | undefined {
  return outcome.ok || outcome.record?.released ? undefined : leftMs(seen, nowMs)
}
