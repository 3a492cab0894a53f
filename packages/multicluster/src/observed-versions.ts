/**
 * What was seen of one election, and since when: the only thing that a relay judges. It never holds a lease, it only
 * knows for how long one version of the record has been there.
 */
import { absentVersion, type LeaseRecord } from 'tenure'

/** The newest version, and the monotonic moment at which it was first seen here. */
export interface VersionSight {
  /** {@link absentVersion} if there is no record. */
  readonly version: string
  readonly record: LeaseRecord | undefined
  readonly seenAtMs: number
  /** For how long it holds from then on. */
  readonly holdsForMs: number
}

/** Everything that is remembered about one election. */
export interface ElectionSights {
  readonly sight: VersionSight | undefined
  /** Versions that were seen before, which may be reported again. */
  readonly past: readonly { readonly version: string; readonly seenAtMs: number }[]
  readonly highestTerm: number
  /** Of the newest record that had one. */
  readonly lastDurationMs: number
}

/** How something was seen. */
export interface Showing {
  readonly record: LeaseRecord | undefined
  /** An answer is the store's word. An event may report the past, or come twice. */
  readonly by: 'answer' | 'event'
  /** When it arrived here, and never earlier. */
  readonly nowMs: number
  /** For how long a record that is not there counts as held. */
  readonly absentForMs: number
  /** The highest term that is known to have been granted, where that is more than the record says. */
  readonly highestTerm?: number | undefined
}

export const nothingSeen: ElectionSights = { sight: undefined, past: [], highestTerm: 0, lastDurationMs: 0 }

const pastLimit = 8

/** Takes note of what was seen. */
export function withSight(
  seen: ElectionSights,
  { record, by, nowMs, absentForMs, ...showing }: Showing,
): ElectionSights {
  const version = record?.version ?? absentVersion
  const highestTerm = Math.max(seen.highestTerm, record?.term ?? 0, showing.highestTerm ?? 0)
  // Somebody has led since, and that record is gone as well: what was seen before says nothing of that lease.
  const sight = !record && !seen.sight?.record && highestTerm > seen.highestTerm ? undefined : seen.sight
  if (sight?.version === version && sight.record?.released === record?.released) {
    return highestTerm > seen.highestTerm ? { ...seen, highestTerm } : seen
  }
  const known = seen.past.find((one) => one.version === version)
  if (by === 'event' && (known || (record && record.term < seen.highestTerm))) return seen
  // No version returns; that of a record that is not there does, and begins again.
  const before = sight?.version === version ? sight : known
  const lastDurationMs = record && isDuration(record.leaseDurationMs) ? record.leaseDurationMs : seen.lastDurationMs
  return {
    sight: {
      version,
      record,
      // Its writer counts from before: what is seen now can only be older than now.
      seenAtMs: before?.seenAtMs ?? nowMs,
      holdsForMs:
        record && isDuration(record.leaseDurationMs) ? record.leaseDurationMs : Math.max(absentForMs, lastDurationMs),
    },
    past: record && !before ? [...seen.past.slice(1 - pastLimit), { version, seenAtMs: nowMs }] : seen.past,
    highestTerm,
    lastDurationMs,
  }
}

/** What is left of the lease that is in the way; 0 if it ran out or was given back; undefined if nothing was seen. */
export function leftMs({ sight }: ElectionSights, nowMs: number): number | undefined {
  if (!sight) return undefined
  return sight.record?.released ? 0 : Math.max(0, sight.seenAtMs + sight.holdsForMs - nowMs)
}

/** The version that was there for the whole of its duration, if it is one that somebody held. */
export function expiredVersionOf(seen: ElectionSights, nowMs: number): string | undefined {
  const { sight } = seen
  return sight && !sight.record?.released && leftMs(seen, nowMs) === 0 ? sight.version : undefined
}

function isDuration(ms: number): boolean {
  return ms > 0 && ms < Infinity
}
