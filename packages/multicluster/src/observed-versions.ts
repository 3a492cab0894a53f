/**
 * The versions of one election's record, and when each was first seen. This is all that a relay decides by. A relay never
 * holds a lease; it only knows how long one version of the record has been current.
 */
import { absentVersion, type LeaseRecord } from 'tenure'

/** The newest version, and the monotonic time at which this relay first saw it. */
export interface VersionSight {
  /** {@link absentVersion} if there is no record. */
  readonly version: string
  readonly record: LeaseRecord | undefined
  readonly seenAtMs: number
  /** How long the lease lasts from then on. */
  readonly holdsForMs: number
}

/** Everything that a relay remembers about one election. */
export interface ElectionSights {
  readonly sight: VersionSight | undefined
  /** Earlier versions. A watch may report them again. */
  readonly past: readonly { readonly version: string; readonly seenAtMs: number }[]
  readonly highestTerm: number
  /** The lease duration of the newest record that had one. */
  readonly lastDurationMs: number
}

/** A record as it arrived at this relay. */
export interface Showing {
  readonly record: LeaseRecord | undefined
  /** An answer is current. An event may report the past, or arrive twice. */
  readonly by: 'answer' | 'event'
  /** When it arrived. It must not be earlier, because expiry counts from it. */
  readonly nowMs: number
  /** How long a missing record counts as held. */
  readonly absentForMs: number
  /** The highest term known to have been granted, if it is above the record's term. */
  readonly highestTerm?: number | undefined
}

export const nothingSeen: ElectionSights = { sight: undefined, past: [], highestTerm: 0, lastDurationMs: 0 }

const pastLimit = 8

/** Adds a record to what is known. */
export function withSight(
  seen: ElectionSights,
  { record, by, nowMs, absentForMs, ...showing }: Showing,
): ElectionSights {
  const version = record?.version ?? absentVersion
  const highestTerm = Math.max(seen.highestTerm, record?.term ?? 0, showing.highestTerm ?? 0)
  // Another candidate has led since, and its record is gone too. The earlier observation says nothing about that lease.
  const sight = !record && !seen.sight?.record && highestTerm > seen.highestTerm ? undefined : seen.sight
  if (sight?.version === version && sight.record?.released === record?.released) {
    return highestTerm > seen.highestTerm ? { ...seen, highestTerm } : seen
  }
  const known = seen.past.find((one) => one.version === version)
  if (by === 'event' && (known || (record && record.term < seen.highestTerm))) return seen
  // A version never returns, except that of a missing record, whose count starts again.
  const before = sight?.version === version ? sight : known
  const lastDurationMs = record && isDuration(record.leaseDurationMs) ? record.leaseDurationMs : seen.lastDurationMs
  return {
    sight: {
      version,
      record,
      // Safe, because the writer counts from an earlier moment than the first sight.
      seenAtMs: before?.seenAtMs ?? nowMs,
      holdsForMs:
        record && isDuration(record.leaseDurationMs) ? record.leaseDurationMs : Math.max(absentForMs, lastDurationMs),
    },
    past: record && !before ? [...seen.past.slice(1 - pastLimit), { version, seenAtMs: nowMs }] : seen.past,
    highestTerm,
    lastDurationMs,
  }
}

/** The time left of the current lease. 0 if it expired or was released, undefined if nothing was seen yet. */
export function leftMs({ sight }: ElectionSights, nowMs: number): number | undefined {
  if (!sight) return undefined
  return sight.record?.released ? 0 : Math.max(0, sight.seenAtMs + sight.holdsForMs - nowMs)
}

/** The current version if it was held and has been seen for its whole duration. Otherwise undefined. */
export function expiredVersionOf(seen: ElectionSights, nowMs: number): string | undefined {
  const { sight } = seen
  return sight && !sight.record?.released && leftMs(seen, nowMs) === 0 ? sight.version : undefined
}

function isDuration(ms: number): boolean {
  return ms > 0 && ms < Infinity
}
