import { mkdtempSync, rmSync } from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Elector, isTenureError, type ElectionEvent, type Leadership, type LeadershipLostError } from 'tenure'
import { now, setTimer } from '../clock.ts'
import { formatDuration } from '../durations.ts'
import { CommandError, exitCodes } from '../errors.ts'
import { failureOf } from '../failures.ts'
import { FenceFile } from './fence-file.ts'
import type { Messages } from './messages.ts'
import { Narrator } from './narrator.ts'
import type { Plan } from './plan.ts'
import { hasSucceeded } from './restart.ts'
import { takeSignals } from './signals.ts'
import type { Run, RunEnd } from './guarded-run.ts'
import { Supervision } from './supervision.ts'
import { isInForeground } from './terminal.ts'
import { deadlinesOf } from './timings.ts'

/** How one run of the command went. */
export interface Executed {
  readonly end: RunEnd
  /** It was told to end, by whom ever. */
  readonly wasTold: boolean
  readonly lastedMs: number
}

/** What follows on a leadership: the end of `tenure run`, or another try after a while. */
export type Verdict = { readonly code: number } | { readonly againAfterMs: number }

/** What is done while leading. */
export interface Mode {
  /** Whether there is something to do once, so that an end before that is no success. */
  readonly isTask: boolean
  lead(leadership: Leadership, conductor: Conductor): Promise<Verdict>
}

/** `tenure run`: campaigns, and runs the command under supervision while it leads. */
export class Conductor {
  readonly plan: Plan
  readonly tell: Narrator['tell']
  readonly note: Narrator['note']
  readonly #narrator: Narrator
  readonly #supervision: Supervision
  readonly #ending = new AbortController()
  #folder: string | undefined
  #fence: FenceFile | undefined
  #elector: Elector | undefined
  #leadership: Leadership | undefined
  #run: Run | undefined
  #stopping: NodeJS.Signals | undefined
  #hasAnswered = false

  constructor(plan: Plan, messages: Messages) {
    this.plan = plan
    this.#narrator = new Narrator(plan, messages)
    this.tell = this.#narrator.tell
    this.note = this.#narrator.note
    this.#supervision = new Supervision({ election: plan.election, tell: messages.tell })
  }

  /** The signal by which somebody asked for the end, if so. */
  get stopping(): NodeJS.Signals | undefined {
    return this.#stopping
  }

  /** The exit code after such a signal, if nothing else has one to give. */
  stopCode({ isTask }: Mode): number | undefined {
    if (!this.#stopping) return undefined
    return this.#stopping === 'SIGTERM' && !isTask ? 0 : codeOfSignal(this.#stopping)
  }

  /** Gives the exit code. */
  async conduct(mode: Mode): Promise<number> {
    const forgetSignals = takeSignals({
      stop: (signal) => this.#stop(signal),
      hurry: (signal) => this.#hurry(signal),
      pass: (signal) => this.#run?.signal(signal),
      // Not SIGTSTP: the kernel discards it for a group whose parent is in another session.
      pause: () => this.#run?.signalNow('SIGSTOP'),
      resume: () => this.#run?.signalNow('SIGCONT'),
    })
    try {
      return await this.#campaign(mode)
    } finally {
      this.#narrator.close()
      await this.#supervision.close()
      this.#clearAway()
      forgetSignals()
    }
  }

  /** Runs the command once, from start to the end of its last process. Gives nothing if it was too late for that. */
  async execute(leadership: Leadership, more: Readonly<Record<string, string>> = {}): Promise<Executed | undefined> {
    const { command, args, timings, drainTimeoutMs } = this.plan
    const fence = await this.#writeFence(leadership).catch((error: unknown) => {
      throw new CommandError(fenceTrouble(error), exitCodes.failed)
    })
    await this.#supervision.ready()
    if (!leadership.isLeader() || this.#stopping) return undefined
    const environment = { ...process.env, ...environmentOf(leadership, fence), ...more }
    const mark = `TENURE_FENCE_FILE=${fence.path}`
    const stdin = isInForeground() ? 'inherit' : 'ignore'
    const startedAtMs = now().machineMs
    const work = { command, args, environment, stdin, mark } as const
    const run = await this.#supervision.start(work, deadlinesOf(leadership, timings), timings.graceMs)
    this.#run = run
    const onAbort = () => {
      if (isVoluntary(leadership)) return run.end(this.#stopping ?? 'SIGTERM', drainTimeoutMs)
      const leftMs = Math.max(0, leadership.drainMs() - timings.marginMs)
      this.tell(`${messageOf(leadership.signal.reason)} The command gets SIGTERM, and SIGKILL if it does not end.`)
      run.end('SIGTERM', Math.min(timings.graceMs, leftMs))
    }
    if (leadership.signal.aborted) onAbort()
    else leadership.signal.addEventListener('abort', onAbort, { once: true })
    const end = await run.ended
    this.#run = undefined
    leadership.signal.removeEventListener('abort', onAbort)
    if (hasSucceeded(end)) this.note(describe(end))
    else this.tell(describe(end))
    // Refused because it came too late, as after a pause of this machine.
    if (end.type === 'not-started' && end.code === undefined) return undefined
    return { end, wasTold: run.wasTold, lastedMs: now().machineMs - startedAtMs }
  }

  /** In a folder that is made now: what lies in a temporary folder while others lead may be swept away. */
  async #writeFence(leadership: Leadership): Promise<FenceFile> {
    const last = this.#fence
    if (last) {
      const isWritten = await last.update(leadership).then(
        () => true,
        (error: unknown) => {
          if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
          return false
        },
      )
      if (isWritten) return last
    }
    const folder = mkdtempSync(join(tmpdir(), 'tenure-run-'))
    this.#folder = folder
    this.#supervision.keep(folder)
    const fence = new FenceFile(join(folder, 'fence.json'))
    this.#fence = fence
    await fence.update(leadership)
    return fence
  }

  #clearAway(): void {
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true, force: true })
  }

  /** Waits, or until leadership ends. Gives whether it still leads. */
  pause(leadership: Leadership, delayMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = () => {
        cancel()
        leadership.signal.removeEventListener('abort', settle)
        resolve(leadership.isLeader())
      }
      const cancel = setTimer(delayMs, settle)
      if (leadership.signal.aborted) settle()
      else leadership.signal.addEventListener('abort', settle, { once: true })
    })
  }

  async #campaign(mode: Mode): Promise<number> {
    const { plan } = this
    const store = await plan.openStore(this.#supervision)
    const { leaseDurationMs, renewDeadlineMs, driftRatio, graceMs } = plan.timings
    const elector = new Elector({
      store,
      election: plan.election,
      identity: plan.identity,
      leaseDurationMs,
      renewDeadlineMs,
      driftRatio,
      // Longer than anything here: the command is killed before, and the lease is not given up while it runs.
      drainTimeoutMs: plan.drainTimeoutMs + graceMs + 10_000,
      observer: {
        onEvent: (event) => this.#observe(event),
        onCall: ({ result }) => (this.#hasAnswered ||= result !== 'failed'),
      },
    })
    this.#elector = elector
    const cancel = setTimer(plan.storeTimeoutMs, () => {
      if (this.#hasAnswered) return
      const why = this.#narrator.storeTrouble ?? 'No call has come back.'
      this.#fail(new CommandError(`The store has never answered. ${why}`, exitCodes.unavailable))
    })
    try {
      await this.#supervision.ready()
      if (!this.#stopping) elector.start()
      return await this.#reigns(elector, mode)
    } finally {
      cancel()
      await elector.stop()
      await store.close?.()
    }
  }

  async #reigns(elector: Elector, mode: Mode): Promise<number> {
    for (;;) {
      const leadership = await this.#elected(elector)
      if (!leadership) return this.stopCode(mode) ?? exitCodes.failed
      const verdict = await this.#reign(leadership, mode)
      if (!verdict) continue
      if ('code' in verdict) return verdict.code
      // After a loss there is nothing to give back, and the campaign goes on by itself.
      if (leadership.isLeader()) await elector.stepDown({ cooldownMs: verdict.againAfterMs })
    }
  }

  async #elected(elector: Elector): Promise<Leadership | undefined> {
    const { signal } = this.#ending
    try {
      return await elector.waitForLeadership({ signal })
    } catch (error) {
      if (signal.reason instanceof CommandError) throw signal.reason
      if (this.#stopping) return undefined
      throw error
    }
  }

  /** The lease is released only after this has settled. */
  async #reign(leadership: Leadership, mode: Mode): Promise<Verdict | undefined> {
    let settle = (): void => {}
    try {
      leadership.waitUntil(new Promise<void>((resolve) => (settle = resolve)))
    } catch {
      // Over before it began.
      return undefined
    }
    this.#leadership = leadership
    try {
      return await mode.lead(leadership, this)
    } finally {
      this.#leadership = undefined
      settle()
    }
  }

  #observe(event: ElectionEvent): void {
    if (event.type === 'elected') this.#narrator.elected(event.term)
    else if (event.type === 'renewed') this.#renewed()
    else if (event.type === 'new-leader') this.#narrator.leads(event.record, event.record.holder === event.identity)
    else if (event.type === 'renew-failed') this.#failed(event.error, { ofRenewal: true })
    else if (event.type === 'error') this.#failed(event.error, { ofRenewal: false })
  }

  #renewed(): void {
    this.#narrator.renewed()
    const leadership = this.#leadership
    if (!leadership) return
    this.#run?.extend(deadlinesOf(leadership, this.plan.timings))
    this.#fence?.update(leadership).catch((error: unknown) => this.#narrator.fileFailed(fenceTrouble(error)))
  }

  #failed(error: unknown, what: { readonly ofRenewal: boolean }): void {
    const failure = failureOf(error)
    // Something that no waiting will mend, before anything has begun.
    if (!this.#hasAnswered && isTenureError(error) && !error.retryable) return this.#fail(failure)
    this.#narrator.storeFailed(failure.message, what)
  }

  #stop(signal: NodeJS.Signals): void {
    this.#stopping = signal
    const withinMs = this.plan.drainTimeoutMs
    this.note(this.#run ? `got ${signal}: the command has ${formatDuration(withinMs)} to end` : `got ${signal}: ends`)
    this.#ending.abort()
    void this.#elector?.stop()
  }

  #hurry(signal: NodeJS.Signals): void {
    // With a command there is something to wait for still: its death.
    if (this.#run) {
      this.tell(`got ${signal} again: kills the command`)
      return this.#run.kill()
    }
    this.#clearAway()
    process.exit(codeOfSignal(signal))
  }

  #fail(error: CommandError): void {
    this.#ending.abort(error)
  }
}

function environmentOf({ term, election, identity }: Leadership, { path }: FenceFile): Record<string, string> {
  return {
    TENURE_TERM: String(term),
    TENURE_ELECTION: election,
    TENURE_IDENTITY: identity,
    TENURE_FENCE_FILE: path,
  }
}

/** The exit code that stands for the end of a command. */
export function codeOf(end: RunEnd): number {
  if (end.type === 'not-started') return end.code === 'ENOENT' ? exitCodes.notFound : exitCodes.notExecutable
  if (end.type === 'unknown') return exitCodes.failed
  return end.code ?? codeOfSignal(end.signal ?? 'SIGKILL')
}

function codeOfSignal(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal]
}

function describe(end: RunEnd): string {
  if (end.type === 'not-started') return `the command did not start: ${end.error}`
  if (end.type === 'unknown') return 'the supervisor died or did not answer, so the command was killed'
  return end.signal ? `the command was ended by ${end.signal}` : `the command exited with ${end.code}`
}

function isVoluntary({ signal }: Leadership): boolean {
  const { reason } = signal.reason as LeadershipLostError
  return reason === 'stopped' || reason === 'released'
}

function fenceTrouble(error: unknown): string {
  return `The file for the command cannot be written: ${messageOf(error)}`
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
