import type { LeaseRecord } from 'tenure'
import { wallMs } from './clock.ts'

/** A record as it is printed, by the names of the library. */
export interface Shown {
  readonly holder: string
  readonly term: number
  readonly leaseDurationMs: number
  /** Of a running lease; approximate where it comes from the holder's clock. */
  readonly remainingMs?: number
  /** Unix time, by the clock of the writer. */
  readonly acquiredAt: number
  readonly renewedAt: number
  readonly metadata: LeaseRecord['metadata']
  readonly carry: string
}

/** The state of an election. */
export interface Standing {
  readonly election: string
  readonly leader: Shown | null
  /** The last leader, while nobody leads. */
  readonly previousLeader?: Shown
  /** For how long nobody may lead yet, where a service says so. */
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
 * Where only candidates can judge a lease, one look shows the time of its last renewal, by the holder's clock. That is
 * good enough to print, and nothing is decided by it.
 */
export function aboutRemainingMs({ renewedAt, leaseDurationMs }: LeaseRecord): number {
  return Math.min(leaseDurationMs, renewedAt + leaseDurationMs - wallMs())
}
