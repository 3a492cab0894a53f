import type { Leadership } from 'tenure'
import type { ShardContext } from 'tenure/shards'
import { formatDuration } from '../shared/arguments/durations.ts'
import { CommandError, exitCodes } from '../shared/arguments/errors.ts'
import { now, setTimer } from '../shared/clock.ts'
import type { CommandRun } from './command-run.ts'
import { shardVariables, withoutSecrets } from './environment.ts'
import { fenceTrouble, lostFolder, type Executed } from './executor.ts'
import { FenceFile, FenceFolder, shardFileName, type FencedLease } from './fence-file.ts'
import type { ShardPlan } from './plan.ts'
import { Backoff, shouldRestart } from './restart.ts'
import { exitCodeOf, endText, isTemporary } from './run-end.ts'
import type { ShardReporter } from './shard-reporter.ts'
import type { StopRequest } from './stop-request.ts'
import type { Supervision } from './supervision.ts'
import { deadlinesOf, isVoluntary } from './timings.ts'

/** The command of one shard that is running. */
interface ShardRun {
  readonly run: CommandRun
  /** Puts the current lease into the shard's fence file. */
  updateFence(): Promise<void>
}

/** Runs the command once for each shard that this process owns, under supervision. */
export class ShardExecutor {
  readonly #plan: ShardPlan
  readonly #reporter: ShardReporter
  readonly #supervision: Supervision
  readonly #stop: StopRequest
  readonly #fences: FenceFolder
  readonly #runs = new Map<number, ShardRun>()
  /** The lease of the seat. All shards of this process depend on it. */
  #seat: Leadership | undefined

  constructor(plan: ShardPlan, reporter: ShardReporter, supervision: Supervision, stop: StopRequest) {
    this.#plan = plan
    this.#reporter = reporter
    this.#supervision = supervision
    this.#stop = stop
    this.#fences = new FenceFolder((path, lost) => {
      supervision.keep(path)
      if (lost !== undefined && this.#runs.size > 0) reporter.fileFailed(lostFolder(lost))
    })
  }

  /** The commands that are running. */
  get runs(): readonly CommandRun[] {
    return [...this.#runs.values()].map(({ run }) => run)
  }

  /** This process has taken a seat. The library starts no work under it before this. */
  takeSeat(seat: Leadership): void {
    this.#seat = seat
  }

  /** Forwards a renewal of the seat to all commands. */
  extend(): void {
    if (!this.#seat) return
    for (const { run, updateFence } of this.#runs.values()) {
      run.extend(deadlinesOf(this.#seat, this.#plan.timings))
      updateFence().catch((error: unknown) => this.#reporter.fileFailed(fenceTrouble(error)))
    }
  }

  removeFences(): void {
    this.#fences.remove()
  }

  /**
   * Runs the command of a shard while this process owns the shard, and restarts it by the rules. Settles only when no
   * process of the command is left, and never rejects: until then the library keeps the shard.
   */
  async serve(context: ShardContext): Promise<void> {
    const { rules } = this.#plan
    const backOff = new Backoff(rules.firstDelayMs)
    try {
      while (!this.#isOver(context)) {
        const done = await this.#execute(context)
        if (this.#isOver(context)) return
        if (done?.end.type === 'not-started' && !isTemporary(done.end)) {
          return this.#stop.fail(new CommandError(endText(done.end), exitCodeOf(done.end)))
        }
        if (done && !shouldRestart(rules, done)) {
          const text = `shard ${context.shard} has no command until it moves`
          return this.#reporter.reportUnlessQuiet(text)
        }
        const delayMs = done ? backOff.after(done.lastedMs) : rules.firstDelayMs
        const text = `restarting the command of shard ${context.shard} in ${formatDuration(delayMs)}`
        if (done) this.#reporter.reportUnlessQuiet(text)
        await pause(delayMs, [context.signal, this.#stop.aborted])
      }
    } catch (error) {
      this.#stop.fail(error instanceof CommandError ? error : new CommandError(String(error), exitCodes.failed))
    }
  }

  /** Whether nothing may be started for a shard anymore. The signal looks at the clock. */
  #isOver({ signal }: ShardContext): boolean {
    return signal.aborted || this.#stop.aborted.aborted
  }

  /** Runs the command once, until the last of its processes has ended. Returns undefined if it was too late to start it. */
  async #execute(context: ShardContext): Promise<Executed | undefined> {
    const { shard, token, signal } = context
    const { command, args, timings, passesSecrets, group: election } = this.#plan
    const seat = this.#seat
    if (!seat) return undefined
    const { identity } = seat
    const fence = new FenceFile(this.#fences, shardFileName(shard))
    const names = { election, identity, shard, token }
    const updateFence = () => fence.update({ names, leftMs: () => seat.drainMs() } satisfies FencedLease)
    await updateFence().catch((error: unknown) => {
      throw new CommandError(fenceTrouble(error), exitCodes.failed)
    })
    const own = passesSecrets ? process.env : withoutSecrets(process.env)
    const environment = { ...own, ...shardVariables({ election, identity, shard, token, fencePath: fence.path }) }
    // All commands would compete for one standard input.
    const work = { command, args, environment, stdin: 'ignore', marker: fence.marker } as const
    // Other commands may be started first, so this is asked right before the order.
    const deadlines = () => (seat.isLeader() && !this.#isOver(context) ? deadlinesOf(seat, timings) : undefined)
    const run = await this.#supervision.start(work, deadlines, timings.graceMs)
    if (!run) return undefined
    const startedAtMs = now().machineMs
    this.#runs.set(shard, { run, updateFence })
    const onAbort = () => this.#end(run, seat)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    const end = await run.ended
    signal.removeEventListener('abort', onAbort)
    this.#runs.delete(shard)
    this.#reporter.exited(shard, end)
    // The supervisor refused the start because it came too late, for instance after this machine was paused.
    if (end.type === 'not-started' && end.code === undefined) return undefined
    return { end, wasTold: run.wasAskedToEnd, hasTimedOut: false, lastedMs: now().machineMs - startedAtMs }
  }

  /**
   * Ends a command whose shard this process no longer owns. If the shard moves, the lease is still renewed while the
   * command drains. If the seat was lost, the command has only the rest of the lease.
   */
  #end(run: CommandRun, seat: Leadership): void {
    const { timings, drainTimeoutMs } = this.#plan
    if (!seat.signal.aborted || isVoluntary(seat)) return run.end(this.#stop.signal ?? 'SIGTERM', drainTimeoutMs)
    const leftMs = Math.max(0, seat.drainMs() - timings.marginMs)
    run.end('SIGTERM', Math.min(timings.graceMs, leftMs))
  }
}

/** Waits for a while, or until one of the signals aborts. */
function pause(delayMs: number, signals: readonly AbortSignal[]): Promise<void> {
  return new Promise((resolve) => {
    const settle = () => {
      cancel()
      for (const signal of signals) signal.removeEventListener('abort', settle)
      resolve()
    }
    const cancel = setTimer(delayMs, settle)
    for (const signal of signals) signal.addEventListener('abort', settle, { once: true })
    if (signals.some((signal) => signal.aborted)) settle()
  })
}
