import {
  electionMetrics,
  Elector,
  isTenureError,
  type ElectionEvent,
  type ElectionMetrics,
  type Leadership,
  type LeaseStore,
  type Observer,
} from 'tenure'
import { formatDuration } from '../shared/arguments/durations.ts'
import { CommandError, exitCodes } from '../shared/arguments/errors.ts'
import { callWithTimeout } from '../shared/calls.ts'
import { isFollowing, isHeld } from '../shared/elector.ts'
import { codeOfSignal } from '../shared/ending.ts'
import { failureOf, withCommandErrors } from '../shared/failures.ts'
import { Executor } from './executor.ts'
import type { Messages } from './messages.ts'
import { Narrator } from './reporter.ts'
import type { Plan } from './plan.ts'
import { takeSignals } from './signals.ts'
import { StopRequest } from './stop-request.ts'
import { StoreHealth } from './store-health.ts'
import { Supervision } from './supervision.ts'

/** What follows when a term has ended: `tenure run` exits, or campaigns again after a delay. */
export type NextStep = { readonly code: number } | { readonly againAfterMs: number }

/** What a mode works with. */
export interface RunContext {
  readonly narrator: Narrator
  readonly executor: Executor
  readonly stop: StopRequest
}

/** What `tenure run` does while it leads. */
export interface Mode {
  /** Whether there is work to do once, so that an exit before it is done is not a success. */
  readonly isTask: boolean
  lead(leadership: Leadership, stage: RunContext): Promise<NextStep>
}

/** `tenure run`: campaigns, and hands over to its mode while it leads. */
export class Runner {
  readonly #plan: Plan
  readonly #supervision: Supervision
  readonly #stage: RunContext
  #elector: Elector | undefined
  #leadership: Leadership | undefined
  #health: StoreHealth | undefined

  constructor(plan: Plan, messages: Messages) {
    this.#plan = plan
    this.#supervision = new Supervision({ election: plan.election, tell: messages.tell })
    const narrator = new Narrator(plan, messages)
    const stop = new StopRequest()
    this.#stage = { narrator, stop, executor: new Executor(plan, narrator, this.#supervision, stop) }
  }

  /** Runs until the end and returns the exit code. */
  async conduct(): Promise<number> {
    const { narrator, executor } = this.#stage
    const forgetSignals = takeSignals({
      stop: (signal) => this.#stop(signal),
      hurry: (signal) => this.#hurry(signal),
      pass: (signal) => executor.run?.signal(signal),
      // Not SIGTSTP: the kernel discards it for a process group whose parent is in another session.
      pause: () => executor.run?.signalNow('SIGSTOP'),
      resume: () => executor.run?.signalNow('SIGCONT'),
    })
    try {
      return await this.#campaign()
    } finally {
      narrator.close()
      await this.#supervision.close()
      executor.removeFence()
      forgetSignals()
    }
  }

  async #campaign(): Promise<number> {
    const { narrator } = this.#stage
    const metrics = electionMetrics()
    // Listen before anything else, so that a port conflict is reported while nothing runs.
    const shown = await this.#plan.showMetrics(metrics)
    if (shown) narrator.note(`metrics are at ${shown.url}/metrics`)
    if (shown && !shown.isLoopback) narrator.tell(`anyone who can reach ${shown.url} can read the metrics`)
    try {
      return await this.#campaignOn(await this.#plan.openStore(this.#supervision), metrics)
    } finally {
      await shown?.close()
    }
  }

  async #campaignOn(store: LeaseStore, metrics: ElectionMetrics): Promise<number> {
    const { narrator, stop } = this.#stage
    const elector = electorOf(this.#plan, store, {
      onEvent: (event) => {
        metrics.onEvent(event)
        this.#observe(event)
      },
      onCall: (call) => {
        metrics.onCall(call)
        this.#health?.note(call, narrator.storeTrouble)
        narrator.called(call, () => isFollowing(elector))
      },
    })
    const { storeTimeoutMs, timings, election } = this.#plan
    const health = new StoreHealth({
      timeoutMs: storeTimeoutMs,
      isHeld: () => isHeld(elector),
      look: () => callWithTimeout(timings.renewDeadlineMs, (call) => store.read(election, call)),
      onUnusable: (text) => stop.fail(new CommandError(text, exitCodes.unavailable)),
    })
    this.#elector = elector
    this.#health = health
    try {
      await this.#supervision.ready()
      if (!stop.signal) elector.start()
      return await this.#reigns(elector)
    } finally {
      health.close()
      await elector.stop()
      await store.close?.()
    }
  }

  async #reigns(elector: Elector): Promise<number> {
    for (;;) {
      const leadership = await this.#elected(elector)
      if (!leadership) return this.#stage.stop.code(this.#plan.mode) ?? exitCodes.failed
      const next = await this.#reign(leadership)
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
      throw error
    }
  }

  /** Runs the mode for one term. The lease is released only after this has settled. */
  async #reign(leadership: Leadership): Promise<NextStep | undefined> {
    let settle = (): void => {}
    try {
      leadership.waitUntil(new Promise<void>((resolve) => (settle = resolve)))
    } catch {
      // The term ended before the mode could start.
      return undefined
    }
    this.#leadership = leadership
    try {
      return await this.#plan.mode.lead(leadership, this.#stage)
    } finally {
      this.#leadership = undefined
      settle()
    }
  }

  #observe(event: ElectionEvent): void {
    const { narrator, executor } = this.#stage
    if (event.type === 'elected') narrator.elected(event.term)
    else if (event.type === 'renewed') {
      narrator.renewed()
      if (this.#leadership) executor.extend(this.#leadership)
    } else if (event.type === 'new-leader') narrator.leads(event.record, event.record.holder === event.identity)
    else if (event.type === 'renew-failed') this.#failed(event.error, { ofRenewal: true })
    else if (event.type === 'error') this.#failed(event.error, { ofRenewal: false })
  }

  #failed(error: unknown, what: { readonly ofRenewal: boolean }): void {
    const { narrator, stop } = this.#stage
    const failure = failureOf(error)
    // Nothing has failed yet: the store reported rights that may be missing later.
    if (isTenureError(error) && error.code === 'MISSING_RIGHT') return narrator.tell(failure.message)
    // The store has never answered, and retrying cannot fix this error.
    if (!this.#health?.hasAnswered && isTenureError(error) && !error.retryable) return stop.fail(failure)
    narrator.storeFailed(failure.message, what)
  }

  #stop(signal: NodeJS.Signals): void {
    const { narrator, executor, stop } = this.#stage
    const time = formatDuration(this.#plan.drainTimeoutMs)
    narrator.note(executor.run ? `got ${signal}: the command has ${time} to exit` : `got ${signal}: exiting`)
    stop.stop(signal)
    void this.#elector?.stop()
  }

  #hurry(signal: NodeJS.Signals): void {
    const { narrator, executor } = this.#stage
    // With a command, there is still something to wait for: its death.
    if (executor.run) {
      narrator.tell(`got ${signal} again: killing the command`)
      return executor.run.kill()
    }
    executor.removeFence()
    process.exit(codeOfSignal(signal))
  }
}

function electorOf(plan: Plan, store: LeaseStore, observer: Observer): Elector {
  const { election, identity, metadata, timings } = plan
  const { leaseDurationMs, renewDeadlineMs, graceMs } = timings
  // Longer than any other timeout here. The command is killed before that, and the lease is not released while it runs.
  const drainTimeoutMs = plan.drainTimeoutMs + graceMs + 10_000
  const durations = { leaseDurationMs, renewDeadlineMs, drainTimeoutMs }
  return withCommandErrors(() => new Elector({ store, election, identity, metadata, ...durations, observer }))
}
