import type { LeaseRecord } from 'tenure'
import { wallMs } from './clock.ts'

/** A record as it is printed, with the library's field names. */
export interface LeaseInfo {
  readonly holder: string
  readonly term: number
  readonly leaseDurationMs: number
  /** The time left on the lease. It is approximate if it comes from the holder's clock. */
  readonly remainingMs?: number
  /** Unix time in milliseconds, by the writer's clock. */
  readonly acquiredAt: number
  readonly renewedAt: number
  readonly metadata: LeaseRecord['metadata']
  readonly checkpoint: string
}

/** The state of an election. */
export interface ElectionStatus {
  readonly election: string
  readonly leader: LeaseInfo | null
  /** The last leader, if the election has none now. */
  readonly previousLeader?: LeaseInfo
  /** The time until somebody may lead again. Undefined if the service does not report it. */
  readonly freeInMs?: number
}

export function electionStatus(election: string, record: LeaseRecord | undefined, remainingMs: number): ElectionStatus {
  if (!record) return { election, leader: null }
  const { holder, term, leaseDurationMs, acquiredAt, renewedAt, metadata, checkpoint } = record
  const shown = { holder, term, leaseDurationMs, acquiredAt, renewedAt, metadata, checkpoint }
  if (record.released || remainingMs <= 0) return { election, leader: null, previousLeader: shown }
  return { election, leader: { ...shown, remainingMs: Math.round(remainingMs) } }
}

/**
 * Estimates the time left on a lease from its last renewal and the holder's clock. If only candidates decide expiry, a
 * single read cannot show more than that. The estimate is good enough to print, and no decision depends on it.
 */
export function estimatedRemainingMs({ renewedAt, leaseDurationMs }: LeaseRecord): number {
  return Math.min(leaseDurationMs, renewedAt + leaseDurationMs - wallMs())
}
