import type { Moment } from '../shared/clock.ts'
import type { Session } from './session.ts'

/** A supervisor that takes longer to answer counts as lost. */
export const answerWithinMs = 5_000

/** When a command must be told to end, and when it is killed, unless the lease is renewed. */
export interface Deadlines {
  readonly termAt: Moment
  readonly killAt: Moment
}

/** What the wrapper orders the supervisor to do. Runs are numbered, so that nothing meant for one reaches the next. */
export type Order =
  | {
      readonly type: 'start'
      readonly run: number
      readonly command: string
      readonly args: readonly string[]
      readonly environment: Readonly<Record<string, string | undefined>>
      readonly stdin: 'inherit' | 'ignore'
      readonly deadlines: Deadlines
      /** How long processes have to end that a command leaves behind. */
      readonly graceMs: number
    }
  | { readonly type: 'extend'; readonly run: number; readonly deadlines: Deadlines }
  | { readonly type: 'end'; readonly run: number; readonly signal: NodeJS.Signals; readonly killAt: Moment }
  | { readonly type: 'signal'; readonly run: number; readonly signal: NodeJS.Signals }
  /** Where the wrapper keeps what belongs to its runs. It is removed with the wrapper. */
  | { readonly type: 'keep'; readonly folder: string }
  /** Comes with a listening socket. */
  | { readonly type: 'hold'; readonly sign: string }
  | { readonly type: 'drop'; readonly sign: string }

/** What the supervisor answers. */
export type Answer =
  | { readonly type: 'ready' }
  | { readonly type: 'held'; readonly sign: string }
  | { readonly type: 'started'; readonly run: number; readonly session: Session }
  | { readonly type: 'not-started'; readonly run: number; readonly error: string; readonly code: string | undefined }
  | { readonly type: 'told'; readonly run: number }
  | {
      readonly type: 'gone'
      readonly run: number
      readonly code: number | null
      readonly signal: NodeJS.Signals | null
    }
