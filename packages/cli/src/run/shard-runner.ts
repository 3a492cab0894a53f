import { electionMetrics, type ElectionEvent, type ElectionMetrics, type LeaseStore } from 'tenure'
import { createSupervisedShards, type SupervisedShards } from 'tenure/internal'
import type { ShardChange, ShardContext, ShardObserver } from 'tenure/shards'
import { formatDuration } from '../shared/arguments/durations.ts'
import { CommandError, exitCodes } from '../shared/arguments/errors.ts'
import { callWithTimeout } from '../shared/call-with-timeout.ts'
import { setTimer } from '../shared/clock.ts'
import { isFollowing, isLeaseHeld } from '../shared/elector.ts'
import { commandErrorOf, withCommandErrors } from '../shared/failures.ts'
import { signalExitCode } from '../shared/shutdown.ts'
import type { Messages } from './messages.ts'
import type { ShardPlan } from './plan.ts'
import { ShardExecutor } from './shard-executor.ts'
import { ShardReporter } from './shard-reporter.ts'
import { handleSignals } from './signals.ts'
import { StopRequest } from './stop-request.ts'
import { StoreHealth } from './store-health.ts'
import { Supervision } from './supervision.ts'

/** `tenure run --shards`: shares the shards of a group, and runs the command once for each shard that it owns. */
export class ShardRunner {
  readonly #plan: ShardPlan
  readonly #supervision: Supervision
  readonly #reporter: ShardReporter
  readonly #executor: ShardExecutor
  readonly #stop = new StopRequest()
  #shards: SupervisedShards | undefined
  #health: StoreHealth | undefined
  /** The work on shards that has not settled. */
  readonly #work = new Set<Promise<void>>()

  constructor(plan: ShardPlan, messages: Messages) {
    this.#plan = plan
    this.#supervision = new Supervision({ election: plan.group, tell: messages.tell })
    this.#reporter = new ShardReporter(plan, messages)
    this.#executor = new ShardExecutor(plan, this.#reporter, this.#supervision, this.#stop)
  }

  /** Runs until the end and returns the exit code. */
  async conduct(): Promise<number> {
    const forAll = (act: (run: ShardExecutor['runs'][number]) => void) => this.#executor.runs.forEach(act)
    const ignoreSignals = handleSignals({
      stop: (signal) => this.#stopOn(signal),
      stopNow: (signal) => this.#stopNow(signal),
      forward: (signal) => forAll((run) => run.signal(signal)),
      pause: () => forAll((run) => run.signalNow('SIGSTOP')),
      resume: () => forAll((run) => run.signalNow('SIGCONT')),
    })
    try {
      return await this.#share()
    } finally {
      await this.#supervision.close()
      this.#executor.removeFences()
      ignoreSignals()
    }
  }

  async #share(): Promise<number> {
    const reporter = this.#reporter
    const metrics = electionMetrics()
    // Listen before anything else, so that a port conflict is reported while nothing runs.
    const shown = await this.#plan.showMetrics(metrics)
    if (shown) reporter.reportUnlessQuiet(`metrics are at ${shown.url}/metrics`)
    if (shown && !shown.isLoopback) reporter.tell(`anyone who can reach ${shown.url} can read the metrics`)
    try {
      return await this.#shareOn(await this.#plan.openStore(this.#supervision), metrics)
    } finally {
      await shown?.close()
    }
  }

  async #shareOn(store: LeaseStore, metrics: ElectionMetrics): Promise<number> {
    const { storeTimeoutMs, timings, group } = this.#plan
    const stop = this.#stop
    const shards = this.#create(store, metrics)
    this.#shards = shards
    this.#health = new StoreHealth({
      timeoutMs: storeTimeoutMs,
      isHeld: () => isLeaseHeld(shards.elector),
      look: () => callWithTimeout(timings.renewDeadlineMs, (call) => store.read(group, call)),
      onUnusable: (text) => stop.fail(new CommandError(text, exitCodes.unavailable)),
    })
    const onStop = () => this.#leave(shards)
    try {
      await this.#supervision.ready()
      if (stop.aborted.aborted) onStop()
      else stop.aborted.addEventListener('abort', onStop, { once: true })
      if (!stop.aborted.aborted) await this.#takePart(shards)
    } finally {
      this.#health.close()
      stop.aborted.removeEventListener('abort', onStop)
      await shards.stop()
      // The library does not wait longer than its own time limit.
      await Promise.all(this.#work)
      await store.close?.()
    }
    if (stop.failure) throw stop.failure
    return this.#code ?? exitCodes.failed
  }

  /** Resolves when the shards have stopped. */
  async #takePart(shards: SupervisedShards): Promise<void> {
    const changes = shards.changes()
    try {
      await shards.start()
    } catch (error) {
      if (!this.#stop.aborted.aborted) throw commandErrorOf(error)
    }
    for await (const _ of changes);
  }

  #create(store: LeaseStore, metrics: ElectionMetrics): SupervisedShards {
    const { group, shards: count, identity, metadata, maxMembers, timings, drainTimeoutMs } = this.#plan
    const { guardedUrl } = this.#supervision
    const observer: ShardObserver = {
      onEvent: (event) => {
        metrics.onEvent(event)
        this.#observe(event)
      },
      onCall: (call) => {
        metrics.onCall(call)
        this.#health?.note(call, this.#reporter.storeTrouble)
        this.#reporter.called(call, () => this.#shards !== undefined && isFollowing(this.#shards.elector))
      },
      onShard: (change) => this.#changed(change),
    }
    const options = {
      store,
      group,
      shards: count,
      identity,
      metadata,
      maxMembers,
      leaseDurationMs: timings.leaseDurationMs,
      // This time limit is longer than any other here. Commands are killed before it ends, and the seat is not released
      // while one runs.
      drainTimeoutMs: drainTimeoutMs + timings.graceMs + 10_000,
      releaseOnCrash: guardedUrl !== undefined && { storeUrl: guardedUrl },
      observer,
      log: false,
      work: (context: ShardContext) => this.#serve(context),
    } as const
    return withCommandErrors(() =>
      createSupervisedShards(options, {
        // The other half of the time is for commands that do not exit at once.
        handOverTimeoutMs: Math.max(1, drainTimeoutMs / 2),
        onSeat: (seat) => this.#executor.takeSeat(seat),
        onRenewed: () => this.#executor.extend(),
      }),
    )
  }

  async #serve(context: ShardContext): Promise<void> {
    const work = this.#executor.serve(context)
    this.#work.add(work)
    await work
    this.#work.delete(work)
  }

  #changed(change: ShardChange): void {
    if (change.type === 'error') this.#failed(change.error)
    else this.#reporter.changed(change)
  }

  #observe(event: ElectionEvent): void {
    if (event.type === 'elected') this.#reporter.reportUnlessQuiet(`coordinates "${this.#plan.group}"`)
    else if (event.type === 'renew-failed' || event.type === 'error') this.#failed(event.error)
  }

  #failed(error: unknown): void {
    const failure = this.#reporter.failed(error, { hasAnswered: this.#health?.hasAnswered ?? false })
    if (failure) this.#stop.fail(failure)
  }

  /** The exit code after a signal. Shards have no end, so SIGTERM is a success. */
  get #code(): number | undefined {
    return this.#stop.code({ isTask: false })
  }

  /** Hands the shards over, and ends all commands in time. */
  #leave(shards: SupervisedShards): void {
    const cancel = setTimer(this.#plan.drainTimeoutMs, () => {
      for (const run of this.#executor.runs) run.kill()
    })
    void shards.stop().then(cancel)
  }

  #stopOn(signal: NodeJS.Signals): void {
    const { drainTimeoutMs } = this.#plan
    const text = `handing over all shards, which may take ${formatDuration(drainTimeoutMs)}`
    this.#reporter.reportUnlessQuiet(`got ${signal}: ${this.#executor.runs.length > 0 ? text : 'exiting'}`)
    this.#stop.stop(signal)
  }

  #stopNow(signal: NodeJS.Signals): void {
    const { runs } = this.#executor
    if (runs.length > 0) {
      this.#reporter.tell(`got ${signal} again: killing all commands`)
      this.#shards?.close()
      for (const run of runs) run.kill()
      return
    }
    this.#executor.removeFences()
    process.exit(this.#code ?? signalExitCode(signal))
  }
}
