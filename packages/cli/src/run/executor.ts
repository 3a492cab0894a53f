import { messageOf } from '@tenure/internal/message'
import type { Leadership, LeadershipLostError } from 'tenure'
import { formatDuration } from '../shared/arguments/durations.ts'
import { CommandError, exitCodes } from '../shared/arguments/errors.ts'
import { now, setTimer } from '../shared/clock.ts'
import type { CommandRun } from './command-run.ts'
import { isInForeground, leaseVariables, withoutSecrets } from './environment.ts'
import { FenceFile, FenceFolder, type FencedLease } from './fence-file.ts'
import type { Reporter } from './reporter.ts'
import type { Plan } from './plan.ts'
import { endText, hasSucceeded, type RunEnd } from './run-end.ts'
import type { StopRequest } from './stop-request.ts'
import type { Supervision } from './supervision.ts'
import { deadlinesOf, isVoluntary } from './timings.ts'

/** The result of one run of the command. */
export interface Executed {
  readonly end: RunEnd
  /** Whether the command was asked to end. */
  readonly wasTold: boolean
  /** Whether the run exceeded its time limit and was ended because of that. */
  readonly hasTimedOut: boolean
  readonly lastedMs: number
}

/** Runs the command under supervision while this machine leads, one run at a time. */
export class Executor {
  readonly #plan: Plan
  readonly #reporter: Reporter
  readonly #supervision: Supervision
  readonly #stop: StopRequest
  readonly #fences: FenceFolder
  readonly #fence: FenceFile
  #run: CommandRun | undefined

  constructor(plan: Plan, reporter: Reporter, supervision: Supervision, stop: StopRequest) {
    this.#plan = plan
    this.#reporter = reporter
    this.#supervision = supervision
    this.#stop = stop
    this.#fences = new FenceFolder((path, lost) => this.#moveFence(path, lost))
    this.#fence = new FenceFile(this.#fences)
  }

  /** The run in progress. */
  get run(): CommandRun | undefined {
    return this.#run
  }

  /**
   * Runs the command once, until the last of its processes has ended. Returns undefined if it was too late to start it.
   */
  async execute(leadership: Leadership, more: Readonly<Record<string, string>> = {}): Promise<Executed | undefined> {
    const { command, args, timings, passesSecrets } = this.#plan
    await this.#fence.update(fencedLease(leadership)).catch((error: unknown) => {
      throw new CommandError(fenceTrouble(error), exitCodes.failed)
    })
    const { path: fencePath, marker } = this.#fence
    await this.#supervision.ready()
    if (!leadership.isLeader() || this.#stop.signal) return undefined
    // If the command is also tenure, it must not listen on the same address.
    const { TENURE_METRICS: _ours, ...rest } = process.env
    const own = passesSecrets ? rest : withoutSecrets(rest)
    const { progressFile } = this.#plan.preference
    const progress = progressFile === undefined ? {} : { TENURE_PROGRESS_FILE: progressFile }
    const environment = { ...own, ...leaseVariables(leadership, fencePath), ...progress, ...more }
    const stdin = isInForeground() ? 'inherit' : 'ignore'
    const startedAtMs = now().machineMs
    const work = { command, args, environment, stdin, marker } as const
    const run = await this.#supervision.start(work, () => deadlinesOf(leadership, timings), timings.graceMs)
    if (!run) return undefined
    this.#run = run
    let isAborted = false
    const onAbort = () => {
      isAborted = true
      this.#end(run, leadership)
    }
    if (leadership.signal.aborted) onAbort()
    else leadership.signal.addEventListener('abort', onAbort, { once: true })
    let hasTimedOut = false
    const forgetLimit = this.#limit(run, () => (hasTimedOut = true))
    const end = await run.ended
    forgetLimit()
    this.#run = undefined
    leadership.signal.removeEventListener('abort', onAbort)
    // The supervisor may have ended the command at the deadline before this process noticed the loss.
    const loss = isAborted ? undefined : lossOf(leadership)
    if (loss) this.#reporter.tell(loss)
    if (hasSucceeded(end)) this.#reporter.reportUnlessQuiet(endText(end))
    else this.#reporter.tell(endText(end))
    // The supervisor refused the start because it came too late, for instance after this machine was paused.
    if (end.type === 'not-started' && end.code === undefined) return undefined
    return { end, wasTold: run.wasAskedToEnd, hasTimedOut, lastedMs: now().machineMs - startedAtMs }
  }

  /** Forwards a renewal to the current run. */
  extend(leadership: Leadership): void {
    if (!this.#run) return
    this.#run.extend(deadlinesOf(leadership, this.#plan.timings))
    this.#fence
      .update(fencedLease(leadership))
      .catch((error: unknown) => this.#reporter.fileFailed(fenceTrouble(error)))
  }

  removeFence(): void {
    this.#fences.remove()
  }

  /**
   * Ends the run because leadership has ended. If leadership ended on request, the command has time to drain. After a
   * loss, it has only the rest of the lease.
   */
  #end(run: CommandRun, leadership: Leadership): void {
    const { timings, drainTimeoutMs } = this.#plan
    if (isVoluntary(leadership)) {
      const { reason } = leadership.signal.reason as LeadershipLostError
      const isUnfit = reason === 'ineligible' || reason === 'stalled'
      if (isUnfit) this.#reporter.tell(`${messageOf(leadership.signal.reason)} The command gets SIGTERM.`)
      return run.end(this.#stop.signal ?? 'SIGTERM', drainTimeoutMs)
    }
    const leftMs = Math.max(0, leadership.drainMs() - timings.marginMs)
    const then =
      leftMs > 0
        ? 'The command gets SIGTERM, then SIGKILL if it does not exit.'
        : 'The command gets SIGKILL at once, because another machine may already lead.'
    this.#reporter.tell(`${messageOf(leadership.signal.reason)} ${then}`)
    run.end('SIGTERM', Math.min(timings.graceMs, leftMs))
  }

  /** Ends a run that takes too long. Returns a function that cancels this. */
  #limit(run: CommandRun, onLate: () => void): () => void {
    const { maxRuntimeMs, timings } = this.#plan
    if (maxRuntimeMs === undefined) return () => {}
    return setTimer(maxRuntimeMs, () => {
      onLate()
      const limit = formatDuration(maxRuntimeMs)
      this.#reporter.tell(`the command exceeded --max-runtime ${limit}: it gets SIGTERM, then SIGKILL`)
      run.end('SIGTERM', timings.graceMs)
    })
  }

  #moveFence(path: string, lost: string | undefined): void {
    this.#supervision.keep(path)
    if (lost === undefined || !this.#run) return
    this.#reporter.fileFailed(lostFolder(lost))
  }
}

/** Returns why this process no longer leads, or undefined if it still does. */
function lossOf(leadership: Leadership): string | undefined {
  try {
    leadership.throwIfLost()
    return undefined
  } catch (error) {
    return messageOf(error)
  }
}

function fencedLease(leadership: Leadership): FencedLease {
  const { election, identity, term } = leadership
  return { names: { election, identity, term }, leftMs: () => leadership.drainMs() }
}

/** The message about a folder of fence files that is gone. */
export function lostFolder(path: string): string {
  const text = `The folder ${path}, which holds TENURE_FENCE_FILE, was removed or replaced.`
  return `${text} Do not trust a file at that path: it does not come from tenure. The next run gets a new folder.`
}

export function fenceTrouble(error: unknown): string {
  return `Cannot write TENURE_FENCE_FILE: ${messageOf(error)}`
}
