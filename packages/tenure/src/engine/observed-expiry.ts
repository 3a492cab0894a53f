import { append } from '@tenure/internal/append'
import { absentVersion, type LeaseRecord } from './lease-store.ts'

/**
 * Expiry by observation: a process that waits for a lease counts the duration of each version of its record from the
 * moment it first saw that version, on its own monotonic clock. These are pure functions on plain data. A candidate
 * (`election.ts`), an observer (`observation.ts`), and the relay of a cluster (`packages/multicluster`) all use them.
 *
 *  I2  A version counts for its whole duration, and a missing record counts as held.
 *  I10 A version that was seen before never counts again, so replayed events delay nothing.
 *
 * Why this is safe: the holder counts from the moment it sent the write, which is before anyone could see it.
 */

/** A store replays fewer versions than this. A replay of an older one costs at most one lease duration. */
const seenLimit = 8

/** A version, and when it was first observed. */
export interface ObservedVersion {
  /** See {@link versionKey}. */
  readonly key: string
  readonly atMs: number
}

/** The newest observation: a record, or the absence of a record. */
export interface ObservedLease {
  readonly record: LeaseRecord | undefined
  /** When this version was first observed. Observing it again never changes this time (I10). */
  readonly seenAtMs: number
  /** How long the lease counts as held from then on. */
  readonly holdsForMs: number
}

/** Everything known about the record of one election. */
export interface ObservedVersions {
  /** Undefined before the first observation. */
  readonly view: ObservedLease | undefined
  /** Recently observed versions, so that a replayed one is recognized. */
  readonly seen: readonly ObservedVersion[]
  /** The version in the store's last answer. It is kept separately so that many replayed events cannot evict it. */
  readonly confirmed: ObservedVersion | undefined
  readonly highestTerm: number
  /** The lease duration of the newest record that had one. 0 before the first. */
  readonly lastDurationMs: number
}

/** A record as it arrived. */
export interface Showing {
  readonly record: LeaseRecord | undefined
  /** True for a watch event, which may describe the past or arrive twice. An answer to a call is authoritative. */
  readonly watched: boolean
  /** When it arrived. It must not be an earlier time, because expiry counts from it. */
  readonly nowMs: number
  /** The minimum time for which a lease of unknown duration counts as held. */
  readonly ownDurationMs: number
  /** How long a missing record counts as held, if the store says so. */
  readonly absentForMs?: number | undefined
  /** The highest term known to have been granted, if it is above the record's term. */
  readonly highestTerm?: number | undefined
}

/** The state before the first observation. */
export const nothingObserved: ObservedVersions = {
  view: undefined,
  seen: [],
  confirmed: undefined,
  highestTerm: 0,
  lastDurationMs: 0,
}

/**
 * Identifies what a record shows. If the store decides expiry itself, it may show a lease as released without a new
 * version.
 */
export function versionKey({ version, released }: LeaseRecord): string {
  return released ? `${version} released` : version
}

/**
 * The version that a takeover must name.
 *
 * @example
 * const hasExpired = known.view !== undefined && goneVersion === versionOf(known.view)
 */
export function versionOf({ record }: ObservedLease): string {
  return record?.version ?? absentVersion
}

/**
 * Why a watch event describes the past, or undefined if it does not. A lower term may also mean that the record was
 * deleted and created again. Only an answer from the store can tell the difference.
 */
export function pastOf(
  known: Pick<ObservedVersions, 'seen' | 'confirmed' | 'highestTerm'>,
  record: LeaseRecord,
): 'replayed' | 'lower-term' | undefined {
  if (firstSight(known, versionKey(record))) return 'replayed'
  return record.term < known.highestTerm ? 'lower-term' : undefined
}

/**
 * Adds a record, or the absence of one, to the known state. An event that describes the past adds no record.
 *
 * @example
 * known = observeRecord(known, { record, watched: true, nowMs: clock.monotonicMs(), ownDurationMs: 15_000 })
 */
export function observeRecord(known: ObservedVersions, showing: Showing): ObservedVersions {
  const { record, watched, nowMs, ownDurationMs, absentForMs, highestTerm = 0 } = showing
  const raised = raiseTerm(known, highestTerm)
  const { view, seen, confirmed } = raised
  if (!record) {
    const gone = view && !view.record ? view : undefined
    const holdsForMs = absentForMs ?? Math.max(ownDurationMs, raised.lastDurationMs)
    // A deleted record ends neither the lease it described nor a lease that was granted, unobserved, after a release
    // (I2).
    return gone ? raised : { ...raised, view: { record, seenAtMs: nowMs, holdsForMs } }
  }
  if (watched && pastOf(known, record)) return raised
  const key = versionKey(record)
  const before = firstSight(known, key)
  const sight = before ?? { key, atMs: nowMs }
  const noted = noteRecord(raised, record)
  const holdsForMs = validDuration(record.leaseDurationMs) ?? Math.max(ownDurationMs, noted.lastDurationMs)
  return {
    ...noted,
    view: { record, seenAtMs: sight.atMs, holdsForMs },
    seen: before ? seen : append(seen, sight, seenLimit),
    confirmed: watched ? confirmed : sight,
  }
}

/** The highest term and the last duration, including those of a record that needs no expiry. */
export function noteRecord(
  known: Pick<ObservedVersions, 'highestTerm' | 'lastDurationMs'>,
  { term, leaseDurationMs }: LeaseRecord,
): Pick<ObservedVersions, 'highestTerm' | 'lastDurationMs'> {
  return {
    highestTerm: Math.max(known.highestTerm, term),
    lastDurationMs: validDuration(leaseDurationMs) ?? known.lastDurationMs,
  }
}

/**
 * Adds a term that is known to have been granted. If a record was found missing before, another candidate has led since
 * then, and that observation says nothing about its lease (I2).
 */
function raiseTerm(known: ObservedVersions, term: number): ObservedVersions {
  if (term <= known.highestTerm) return known
  return { ...known, highestTerm: term, view: known.view?.record ? known.view : undefined }
}

/**
 * When the lease will have been observed for its whole duration.
 *
 * @example
 * const readAtMs = known.view ? expiresAtMs(known.view) : Infinity
 */
export function expiresAtMs({ seenAtMs, holdsForMs }: ObservedLease): number {
  return seenAtMs + holdsForMs
}

/** Whether this version has been observed for its full duration, so that its holder's belief has ended (I2). */
export function hasExpired(view: ObservedLease, nowMs: number): boolean {
  return nowMs >= expiresAtMs(view)
}

/**
 * The time left on the current lease. 0 if it expired or was released, undefined if nothing was seen yet.
 *
 * @example
 * const retryAfterMs = leftMs(known, clock.monotonicMs())
 */
export function leftMs({ view }: ObservedVersions, nowMs: number): number | undefined {
  if (!view) return undefined
  return view.record?.released ? 0 : Math.max(0, expiresAtMs(view) - nowMs)
}

/**
 * The current version, if it was held and has been observed for its whole duration. Otherwise undefined.
 *
 * @example
 * const expiredVersion = expiredVersionOf(known, clock.monotonicMs())
 */
export function expiredVersionOf({ view }: ObservedVersions, nowMs: number): string | undefined {
  return view && !view.record?.released && hasExpired(view, nowMs) ? versionOf(view) : undefined
}

function firstSight(
  { seen, confirmed }: Pick<ObservedVersions, 'seen' | 'confirmed'>,
  key: string,
): ObservedVersion | undefined {
  return confirmed?.key === key ? confirmed : seen.find((one) => one.key === key)
}

function validDuration(ms: number): number | undefined {
  return ms > 0 && Number.isFinite(ms) ? ms : undefined
}
