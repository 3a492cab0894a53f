import { messageOf } from '@tenure/internal/message'
import { isTenureError, type CallReport } from 'tenure'
import type { ShardChange } from 'tenure/shards'
import { formatDuration } from '../shared/arguments/durations.ts'
import type { CommandError } from '../shared/arguments/errors.ts'
import { ErrorLog } from '../shared/error-log.ts'
import { commandErrorOf } from '../shared/failures.ts'
import type { Messages, MessageFields } from './messages.ts'
import type { ShardPlan } from './plan.ts'
import { endText, hasSucceeded, type RunEnd } from './run-end.ts'

/** Reports the shards that come and go, and each problem once. */
export class ShardReporter {
  readonly #plan: ShardPlan
  readonly #messages: Messages
  readonly #troubles = new ErrorLog()
  readonly #fileTroubles = new ErrorLog()

  constructor(plan: ShardPlan, messages: Messages) {
    this.#plan = plan
    this.#messages = messages
  }

  readonly tell = (text: string, fields?: MessageFields): void => this.#messages.tell(text, fields)

  /** Like {@link tell}, but silent with --quiet. */
  readonly reportUnlessQuiet = (text: string, fields?: MessageFields): void => {
    if (!this.#plan.isQuiet) this.#messages.tell(text, fields)
  }

  /** The current problem with the store. Undefined if none is known. */
  get storeTrouble(): string | undefined {
    return this.#troubles.last
  }

  changed(change: Exclude<ShardChange, { readonly type: 'error' }>): void {
    if (change.type === 'members' || change.type === 'gap') return
    const { type, shard, token } = change
    const of = `shard ${shard} of "${this.#plan.group}"`
    const fields = { type, shard, token }
    if (change.type === 'gained') this.reportUnlessQuiet(`owns ${of} with token ${token}`, fields)
    else if (change.type === 'revoked') {
      const time = formatDuration(this.#plan.drainTimeoutMs)
      this.reportUnlessQuiet(`${of} moves to another machine: its command has ${time} to exit`, fields)
    } else if (change.reason === 'handed-over') {
      this.reportUnlessQuiet(`handed over ${of}`, { ...fields, reason: change.reason })
    } else {
      const text = `lost ${of}. Its command gets SIGTERM, then SIGKILL before another machine may own the shard.`
      this.tell(text, { ...fields, reason: change.reason })
    }
  }

  /** Reports the end of the command of a shard. */
  exited(shard: number, end: RunEnd): void {
    const text = `shard ${shard}: ${endText(end)}`
    const fields = {
      type: 'exited',
      shard,
      code: end.type === 'exited' ? end.code : null,
      signal: end.type === 'exited' ? end.signal : null,
    } as const
    if (hasSucceeded(end)) this.reportUnlessQuiet(text, fields)
    else this.tell(text, fields)
  }

  /** Records the end of a store call. */
  called(call: CallReport, isFollowing: () => boolean): void {
    if (this.#troubles.recordCall(call, isFollowing)) this.reportUnlessQuiet('the store answers again')
  }

  /**
   * Reports a failure, or returns it if waiting cannot fix it: the group has other settings, or the store has never
   * answered and refuses this process.
   */
  failed(error: unknown, { hasAnswered }: { readonly hasAnswered: boolean }): CommandError | undefined {
    const failure = commandErrorOf(error)
    const isOfGroup = isTenureError(error) && (error.code === 'INVALID_OPTION' || error.code === 'TERM_EXHAUSTED')
    // The library wraps the store's answer in another error.
    const causes = [error, error instanceof Error ? error.cause : undefined]
    const isRefusal = !hasAnswered && causes.some((each) => isTenureError(each) && !each.retryable)
    // Nothing has failed yet. The store has only reported rights that may be missing later.
    const isAdvice = isTenureError(error) && error.code === 'MISSING_RIGHT'
    if (isOfGroup || (isRefusal && !isAdvice)) return failure
    if (this.#troubles.shouldReport(failure.message, { ofRenewal: false })) this.tell(failure.message)
    return undefined
  }

  fileFailed(error: unknown): void {
    const text = messageOf(error)
    if (this.#fileTroubles.shouldReport(text, { ofRenewal: false })) this.tell(text)
  }
}
