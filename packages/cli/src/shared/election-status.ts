import type { LeaseRecord } from 'tenure'
import { wallMs } from './clock.ts'

/** A record as it is printed, with the library's field names. */
export interface Shown {
  readonly holder: string
  readonly term: number
  readonly leaseDurationMs: number
  /** What is left of a running lease; approximate if it comes from the holder's clock. */
  readonly remainingMs?: number
  /** Unix time in milliseconds, by the writer's clock. */
  readonly acquiredAt: number
  readonly renewedAt: number
  readonly metadata: LeaseRecord['metadata']
  readonly carry: string
}

/** The state of an election. */
export interface Standing {
  readonly election: string
  readonly leader: Shown | null
  /** The last leader, if the election has none now. */
  readonly previousLeader?: Shown
  /** How long nobody may lead yet, if a service reports it. */
  readonly freeInMs?: number
}

export function standingOf(election: string, record: LeaseRecord | undefined, remainingMs: number): Standing {
  if (!record) return { election, leader: null }
  const { holder, term, leaseDurationMs, acquiredAt, renewedAt, metadata, carry } = record
  const shown = { holder, term, leaseDurationMs, acquiredAt, renewedAt, metadata, carry }
  if (record.released || remainingMs <= 0) return { election, leader: null, previousLeader: shown }
  return { election, leader: { ...shown, remainingMs: Math.round(remainingMs) } }
}

/**
 * Estimates what is left of a lease from its last renewal and the holder's clock. Where only candidates can judge
 * expiry, one read shows no more than that. It is good enough to print, and nothing is decided by it.
 */
export function aboutRemainingMs({ renewedAt, leaseDurationMs }: LeaseRecord): number {
  return Math.min(leaseDurationMs, renewedAt + leaseDurationMs - wallMs())
}
