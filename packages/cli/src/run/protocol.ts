import type { Moment } from '../shared/clock.ts'
import type { CommandSession } from './session.ts'

/** How long the supervisor may take to answer. After that it counts as lost. */
export const answerWithinMs = 5_000

/** When the command gets SIGTERM and SIGKILL, unless the lease is renewed first. */
export interface Deadlines {
  readonly termAt: Moment
  readonly killAt: Moment
}

/**
 * An order from the wrapper to the supervisor. Runs are numbered, so that an order for one run never affects the next.
 */
export type Order =
  | {
      readonly type: 'start'
      readonly run: number
      readonly command: string
      readonly args: readonly string[]
      readonly environment: Readonly<Record<string, string | undefined>>
      readonly stdin: 'inherit' | 'ignore'
      readonly deadlines: Deadlines
      /** How long processes that the command leaves behind have to end. */
      readonly graceMs: number
    }
  | { readonly type: 'extend'; readonly run: number; readonly deadlines: Deadlines }
  | { readonly type: 'end'; readonly run: number; readonly signal: NodeJS.Signals; readonly killAt: Moment }
  | { readonly type: 'signal'; readonly run: number; readonly signal: NodeJS.Signals }
  /** The folder of the wrapper's files. The supervisor removes it if the wrapper dies. */
  | { readonly type: 'keep'; readonly folder: string }
  /**
   * The supervisor guards the wrapper: descriptor 4 is the pipe. `environment` opens the store. It contains secrets, so
   * it is not the environment of the supervisor, which other programs may show.
   */
  | { readonly type: 'guard'; readonly environment: NodeJS.ProcessEnv }
  /** Sent together with a listening socket. */
  | { readonly type: 'hold'; readonly socketId: string }
  | { readonly type: 'drop'; readonly socketId: string }

/** An answer from the supervisor. */
export type SupervisorAnswer =
  | { readonly type: 'ready' }
  | { readonly type: 'held'; readonly socketId: string }
  | { readonly type: 'started'; readonly run: number; readonly session: CommandSession }
  | { readonly type: 'not-started'; readonly run: number; readonly error: string; readonly code: string | undefined }
  | { readonly type: 'told'; readonly run: number }
  | {
      readonly type: 'gone'
      readonly run: number
      readonly code: number | null
      readonly signal: NodeJS.Signals | null
    }
