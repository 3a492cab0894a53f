/** What a relay makes of an acquire that it passes on, and of what comes back. Pure: `explore()` runs the same functions. */
import { absentVersion, type AcquireClaim, type LeaseRecord, type Outcome } from 'tenure'
import type { GlobalAnswer } from './global-call.ts'
import { expiredVersionOf, leftMs, type ElectionSights } from './observed-versions.ts'

/** With the version that was watched here for all of its duration. */
export function passedOn(seen: ElectionSights, claim: AcquireClaim, nowMs: number): AcquireClaim {
  const watched = expiredVersionOf(seen, nowMs)
  return watched === undefined ? claim : { ...claim, expiredVersion: watched }
}

/**
 * After a refusal, what the candidate asked for, if that could be granted: it may have watched another version run out. It
 * saw a record vanish, say, that was held here.
 */
export function askedAgain(asked: AcquireClaim, passed: AcquireClaim, outcome: Outcome): AcquireClaim | undefined {
  const own = asked.expiredVersion
  const isOthers = !outcome.ok && own !== undefined && own !== passed.expiredVersion
  return isOthers && own === (outcome.record?.version ?? absentVersion) ? asked : undefined
}

/** What an answer shows. `leaseMs`: of the candidate that asked. */
export function shownBy({ outcome, found }: GlobalAnswer, leaseMs: number | undefined) {
  const refused = outcome?.ok === false ? outcome : undefined
  const record: LeaseRecord | undefined = outcome ? outcome.record : found
  const absentForMs = Math.max(refused?.retryAfterMs ?? 0, leaseMs ?? 0)
  return { record, absentForMs, highestTerm: refused?.highestTerm }
}

/** When another try is worth while, where the store cannot tell. */
export function retryAfterMs(seen: ElectionSights, outcome: Outcome, nowMs: number): number | undefined {
  return outcome.ok || outcome.record?.released ? undefined : leftMs(seen, nowMs)
}
