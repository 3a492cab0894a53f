import type { LeaseStore } from 'tenure'
import type { Supervision } from './supervision.ts'
import type { RunTimings } from './timings.ts'

/** What `tenure run` was asked to do. */
export interface Plan {
  readonly election: string
  readonly identity: string | undefined
  readonly command: string
  readonly args: readonly string[]
  readonly timings: RunTimings
  readonly drainTimeoutMs: number
  readonly storeTimeoutMs: number
  /** Tell only what goes wrong. */
  readonly isQuiet: boolean
  openStore(supervision: Supervision): Promise<LeaseStore>
}
