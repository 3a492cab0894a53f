import type { LeaseStore } from 'tenure'
import type { RunTimings } from './timings.ts'

/** What `tenure run` was asked to do. */
export interface Plan {
  readonly election: string
  readonly store: string
  readonly identity: string | undefined
  readonly command: string
  readonly args: readonly string[]
  readonly timings: RunTimings
  readonly drainTimeoutMs: number
  readonly storeTimeoutMs: number
  /** Refuses a store that cannot do what is needed. */
  checkStore(store: LeaseStore): void
}
