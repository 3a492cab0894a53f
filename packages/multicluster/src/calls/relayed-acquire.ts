/**
 * How a relay forwards an acquire, and how it handles the answer. These are pure functions, which `explore()` also
 * runs.
 */
import { absentVersion, type AcquireClaim, type LeaseRecord, type Outcome } from 'tenure'
import { expiredVersionOf, leftMs, observeRecord, type ObservedVersions } from 'tenure/internal/multicluster'
import type { GlobalAnswer } from './global-call.ts'

/** Returns the claim with the version that this relay has watched expire, if there is one. */
export function relayedClaim(seen: ObservedVersions, claim: AcquireClaim, nowMs: number): AcquireClaim {
  const watched = expiredVersionOf(seen, nowMs)
  return watched === undefined ? claim : { ...claim, expiredVersion: watched }
}

/**
 * After a refusal, returns the candidate's own claim if that one could be granted. The candidate may have watched a
 * different version expire than this relay, for example if it saw the record disappear.
 */
export function askedAgain(asked: AcquireClaim, passed: AcquireClaim, outcome: Outcome): AcquireClaim | undefined {
  const own = asked.expiredVersion
  const isOthers = !outcome.ok && own !== undefined && own !== passed.expiredVersion
  return isOthers && own === (outcome.record?.version ?? absentVersion) ? asked : undefined
}

/**
 * Returns the information about the election in an answer. `leaseMs` is the lease duration of the candidate that asked.
 */
export function shownBy({ outcome, found }: GlobalAnswer, leaseMs: number | undefined) {
  const refused = outcome?.ok === false ? outcome : undefined
  const record: LeaseRecord | undefined = outcome ? outcome.record : found
  const absentForMs = Math.max(refused?.retryAfterMs ?? 0, leaseMs ?? 0)
  return { record, absentForMs, highestTerm: refused?.highestTerm }
}

/** Returns when the candidate should try again, for stores that do not report it. */
export function retryAfterMs(seen: ObservedVersions, outcome: Outcome, nowMs: number): number | undefined {
  return outcome.ok || outcome.record?.released ? undefined : leftMs(seen, nowMs)
}

/**
 * Returns a relay's knowledge after a status that has a term but no record: another relay saw that the record was
 * deleted. The lease of the deleted record may last for the duration in that status, counted from now. I2: as long as
 * no duration is known, nothing is counted. The count then starts with the store's own answer, for the duration of this
 * cluster's candidates.
 */
export function afterDeletion(
  seen: ObservedVersions,
  shown: { highestTerm: number; statusDurationMs: number; ownDurationMs: number; nowMs: number },
): ObservedVersions {
  const { highestTerm, statusDurationMs, ownDurationMs, nowMs } = shown
  const lastDurationMs = Math.max(seen.lastDurationMs, statusDurationMs)
  const known = { ...seen, lastDurationMs }
  if (Math.max(ownDurationMs, lastDurationMs) > 0) {
    return observeRecord(known, { record: undefined, watched: true, nowMs, ownDurationMs, highestTerm })
  }
  return { ...known, highestTerm: Math.max(known.highestTerm, highestTerm) }
}
