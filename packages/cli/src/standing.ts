import type { LeaseRecord } from 'tenure'

/** A record as it is printed, by the names of the library. */
export interface Shown {
  readonly holder: string
  readonly term: number
  readonly leaseDurationMs: number
  /** Of a lease that runs; about, where only the holder's clock can tell. */
  readonly remainingMs?: number
  /** Unix time, by the clock of whoever wrote it. */
  readonly acquiredAt: number
  readonly renewedAt: number
  readonly metadata: LeaseRecord['metadata']
  readonly carry: string
}

/** How an election stands. */
export interface Standing {
  readonly election: string
  readonly leader: Shown | null
  /** Who led last, while nobody does. */
  readonly previousLeader?: Shown
}

export function standingOf(election: string, record: LeaseRecord | undefined, remainingMs: number): Standing {
  if (!record) return { election, leader: null }
  const { holder, term, leaseDurationMs, acquiredAt, renewedAt, metadata, carry } = record
  const shown = { holder, term, leaseDurationMs, acquiredAt, renewedAt, metadata, carry }
  if (record.released || remainingMs <= 0) return { election, leader: null, previousLeader: shown }
  return { election, leader: { ...shown, remainingMs: Math.round(remainingMs) } }
}
