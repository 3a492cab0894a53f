import {
  electionMetrics,
  Elector,
  isTenureError,
  resolveTimings,
  type ElectionEvent,
  type ElectionMetrics,
  type ElectorOptions,
  type Leadership,
  type LeaseStore,
  type Observer,
} from 'tenure'
import { formatDuration } from '../shared/arguments/durations.ts'
import { CommandError, exitCodes } from '../shared/arguments/errors.ts'
import { callWithTimeout } from '../shared/call-with-timeout.ts'
import { isFollowing, isLeaseHeld } from '../shared/elector.ts'
import { signalExitCode } from '../shared/shutdown.ts'
import { commandErrorOf, withCommandErrors } from '../shared/failures.ts'
import { Executor } from './executor.ts'
import type { Messages } from './messages.ts'
import { Reporter } from './reporter.ts'
import type { Plan } from './plan.ts'
import { Preference } from './preference.ts'
import { handleSignals } from './signals.ts'
import { StopRequest } from './stop-request.ts'
import { StoreHealth } from './store-health.ts'
import { Supervision } from './supervision.ts'

/** The action after a term has ended: `tenure run` exits, or campaigns again after a delay. */
export type NextStep = { readonly code: number } | { readonly againAfterMs: number }

/** The functions that a mode needs to run the command. */
export interface RunContext {
  readonly reporter: Reporter
  readonly executor: Executor
  readonly stop: StopRequest
}

/** The behavior of `tenure run` while it leads. */
export interface Mode {
  /** Whether the mode has a task that must be completed once, so that exiting before that is not a success. */
  readonly isTask: boolean
  lead(leadership: Leadership, stage: RunContext): Promise<NextStep>
}

/** `tenure run`: campaigns, and hands over to its mode while it leads. */
export class Runner {
  readonly #plan: Plan
  readonly #supervision: Supervision
  readonly #stage: RunContext
  readonly #preference: Preference
  #elector: Elector | undefined
  #leadership: Leadership | undefined
  #health: StoreHealth | undefined
  /** The exit code, once it is decided. After that, only the release and the cleanup are left. */
  #exitCode: number | undefined

  constructor(plan: Plan, messages: Messages) {
    this.#plan = plan
    this.#supervision = new Supervision({ election: plan.election, tell: messages.tell })
    const reporter = new Reporter(plan, messages)
    const stop = new StopRequest()
    const { leaseDurationMs, renewDeadlineMs } = plan.timings
    const { retryIntervalMs } = resolveTimings({ leaseDurationMs, renewDeadlineMs })
    this.#preference = new Preference(plan.preference, retryIntervalMs, reporter)
    this.#stage = { reporter, stop, executor: new Executor(plan, reporter, this.#supervision, stop) }
  }

  /** Runs until the end and returns the exit code. */
  async conduct(): Promise<number> {
    const { reporter, executor } = this.#stage
    const ignoreSignals = handleSignals({
      stop: (signal) => this.#stop(signal),
      stopNow: (signal) => this.#stopNow(signal),
      forward: (signal) => executor.run?.signal(signal),
      // SIGTSTP would not work: the kernel discards it for a process group whose parent is in another session.
      pause: () => executor.run?.signalNow('SIGSTOP'),
      resume: () => executor.run?.signalNow('SIGCONT'),
    })
    try {
      return await this.#campaign()
    } finally {
      reporter.close()
      await this.#supervision.close()
      executor.removeFence()
      ignoreSignals()
    }
  }

  async #campaign(): Promise<number> {
    const { reporter } = this.#stage
    const metrics = electionMetrics()
    // Listen before anything else, so that a port conflict is reported while nothing runs.
    const shown = await this.#plan.showMetrics(metrics)
    if (shown) reporter.reportUnlessQuiet(`metrics are at ${shown.url}/metrics`)
    if (shown && !shown.isLoopback) reporter.tell(`anyone who can reach ${shown.url} can read the metrics`)
    try {
      return await this.#campaignOn(await this.#plan.openStore(this.#supervision), metrics)
    } finally {
      await shown?.close()
    }
  }

  async #campaignOn(store: LeaseStore, metrics: ElectionMetrics): Promise<number> {
    const { reporter, stop } = this.#stage
    const preference = this.#preference
    const elector = electorOf(this.#plan, store, this.#supervision.guardedUrl, preference.options, {
      onEvent: (event) => {
        metrics.onEvent(event)
        this.#observe(event)
      },
      onCall: (call) => {
        metrics.onCall(call)
        this.#health?.note(call, reporter.storeTrouble)
        reporter.called(call, () => isFollowing(elector))
      },
    })
    const { storeTimeoutMs, timings, election } = this.#plan
    const health = new StoreHealth({
      timeoutMs: storeTimeoutMs,
      isHeld: () => isLeaseHeld(elector),
      look: () => callWithTimeout(timings.renewDeadlineMs, (call) => store.read(election, call)),
      onUnusable: (text) => stop.fail(new CommandError(text, exitCodes.unavailable)),
    })
    this.#elector = elector
    this.#health = health
    try {
      await Promise.all([this.#supervision.ready(), preference.start()])
      const { waitMs } = this.#plan
      if (!stop.signal) elector.start(waitMs === undefined ? {} : { until: 'busy', waitMs })
      return (this.#exitCode = await this.#lead(elector))
    } finally {
      health.close()
      preference.close()
      await elector.stop()
      await store.close?.()
    }
  }

  async #lead(elector: Elector): Promise<number> {
    for (;;) {
      const leadership = await this.#elected(elector)
      if (!leadership) return this.#stage.stop.code(this.#plan.mode) ?? exitCodes.failed
      const next = await this.#runTerm(leadership)
      if (!next) continue
      if ('code' in next) return next.code
      // After a loss there is nothing to release, and the elector keeps campaigning.
      if (leadership.isLeader()) await elector.stepDown({ cooldownMs: next.againAfterMs })
    }
  }

  async #elected(elector: Elector): Promise<Leadership | undefined> {
    const { stop } = this.#stage
    try {
      return await elector.waitForLeadership({ signal: stop.aborted })
    } catch (error) {
      if (stop.failure) throw stop.failure
      if (stop.signal) return undefined
      throw notObtained(error, this.#plan, elector)
    }
  }

  /** Runs the mode for one term. The lease is released only after this has settled. */
  async #runTerm(leadership: Leadership): Promise<NextStep | undefined> {
    let settle = (): void => {}
    try {
      leadership.waitUntil(new Promise<void>((resolve) => (settle = resolve)))
    } catch {
      // The term ended before the mode could start.
      return undefined
    }
    this.#leadership = leadership
    let unfollow = (): void => {}
    try {
      unfollow = this.#preference.follow(leadership, () => this.#stage.executor.run !== undefined)
      return await this.#plan.mode.lead(leadership, this.#stage)
    } finally {
      unfollow()
      this.#leadership = undefined
      settle()
    }
  }

  #observe(event: ElectionEvent): void {
    const { reporter, executor } = this.#stage
    if (event.type === 'elected') reporter.elected(event.term)
    else if (event.type === 'renewed') {
      reporter.renewed()
      if (this.#leadership) executor.extend(this.#leadership)
    } else if (event.type === 'new-leader') reporter.leads(event.record, event.record.holder === event.identity)
    else if (event.type === 'renew-failed') this.#failed(event.error, { ofRenewal: true })
    else if (event.type === 'error') this.#failed(event.error, { ofRenewal: false })
  }

  #failed(error: unknown, what: { readonly ofRenewal: boolean }): void {
    const { reporter, stop } = this.#stage
    const failure = commandErrorOf(error)
    // Nothing has failed yet. The store has only reported rights that may be missing later.
    if (isTenureError(error) && error.code === 'MISSING_RIGHT') return reporter.tell(failure.message)
    // The store has never answered, and retrying cannot fix this error.
    if (!this.#health?.hasAnswered && isTenureError(error) && !error.retryable) return stop.fail(failure)
    reporter.storeFailed(failure.message, what)
  }

  #stop(signal: NodeJS.Signals): void {
    if (this.#exitCode !== undefined) return
    const { reporter, executor, stop } = this.#stage
    const time = formatDuration(this.#plan.drainTimeoutMs)
    reporter.reportUnlessQuiet(
      executor.run ? `got ${signal}: the command has ${time} to exit` : `got ${signal}: exiting`,
    )
    stop.stop(signal)
    void this.#elector?.stop()
  }

  #stopNow(signal: NodeJS.Signals): void {
    const { reporter, executor } = this.#stage
    // With a command, there is still something to wait for: the end of the command.
    if (executor.run) {
      reporter.tell(`got ${signal} again: killing the command`)
      return executor.run.kill()
    }
    executor.removeFence()
    process.exit(this.#exitCode ?? signalExitCode(signal))
  }
}

/** Why the elector of a plan with `waitMs` has stopped by itself. */
function notObtained(error: unknown, { election, waitMs }: Plan, elector: Elector): unknown {
  if (waitMs === undefined || !isTenureError(error)) return error
  const { code, message } = error
  if (code === 'STOPPED') {
    return new CommandError(`leadership of "${election}" was lost before the command started`, exitCodes.leadershipLost)
  }
  if (code !== 'BUSY') return commandErrorOf(error)
  const leader = elector.leader()
  const isHeld = leader !== undefined && !leader.released
  const when = waitMs > 0 ? `, and still did after --wait ${formatDuration(waitMs)}` : ''
  const text = isHeld ? `"${leader.holder}" leads "${election}" in term ${leader.term}${when}.` : message
  return new CommandError(`${text} The command was not started.`, exitCodes.lockTimeout)
}

function electorOf(
  plan: Plan,
  store: LeaseStore,
  guardedUrl: string | undefined,
  preference: Partial<ElectorOptions>,
  observer: Observer,
): Elector {
  const { election, identity, metadata, timings } = plan
  const { leaseDurationMs, renewDeadlineMs, graceMs } = timings
  // This timeout is longer than any other here. The command is killed before it ends, and the lease is not released
  // while the command runs.
  const drainTimeoutMs = plan.drainTimeoutMs + graceMs + 10_000
  const durations = { leaseDurationMs, renewDeadlineMs, drainTimeoutMs }
  const releaseOnCrash = guardedUrl !== undefined && { storeUrl: guardedUrl }
  const options = { store, election, identity, metadata, ...durations, ...preference, releaseOnCrash, observer }
  return withCommandErrors(() => new Elector(options))
}
