import { addMs, now, setTimerAfterInput, setTimer, untilMs, type Moment } from '../shared/clock.ts'
import { Enforcer } from './enforcer.ts'
import { answerWithinMs, type SupervisorAnswer, type Deadlines } from './protocol.ts'
import type { RunEnd } from './run-end.ts'
import { isGone, findMarkedSessions, signalSession, type CommandSession } from './session.ts'
import type { SupervisorProcess } from './supervisor-process.ts'

/** The command to run. */
export interface CommandSpec {
  readonly command: string
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly stdin: 'inherit' | 'ignore'
  /** An environment entry that no other command has. It identifies processes that were never reported by their id. */
  readonly marker: string
}

/** The supervisor sends SIGTERM. The wrapper waits this long, and sends it only if the supervisor has not. */
const signalGraceMs = 250
/**
 * How long the supervisor has to report the end of a run once all of its processes are gone. After that it counts as
 * lost.
 */
const lastAnswerWithinMs = 3_000
/** A process that the supervisor was starting when it was killed becomes visible within this time. */
const lateStartMs = 500
/** How often to compare with the clock that counts sleep. Timers do not count sleep. */
const tickMs = 250

/** One supervised run of the command, from the order to start it until none of its processes is left. */
export class CommandRun {
  /** Settles when no process of the run is left, and never before. */
  readonly ended: Promise<RunEnd>
  /** Settles when the supervisor has started the command or refused to, or is dead. */
  readonly answered: Promise<void>
  /** Whether the command was asked to end, so that it did not exit on its own. */
  wasAskedToEnd = false
  readonly #supervisor: SupervisorProcess
  readonly #id: number
  readonly #work: CommandSpec
  readonly #graceMs: number
  readonly #tell: (text: string) => void
  readonly #forget: () => void
  readonly #answerBy = addMs(now(), answerWithinMs)
  #deadlines: Deadlines
  #enforcer: Enforcer | undefined
  #session: CommandSession | undefined
  #end: RunEnd | undefined
  #order: { readonly signal: NodeJS.Signals; readonly killAt: Moment } | undefined
  #isHurried = false
  #isGone = false
  #refused = false
  #cancel: () => void = () => {}
  #settle: (end: RunEnd) => void = () => {}
  #noteAnswer: () => void = () => {}

  constructor(
    supervisor: SupervisorProcess,
    id: number,
    work: CommandSpec,
    deadlines: Deadlines,
    graceMs: number,
    tell: (text: string) => void,
  ) {
    this.#supervisor = supervisor
    this.#id = id
    this.#work = work
    this.#deadlines = deadlines
    this.#graceMs = graceMs
    this.#tell = tell
    this.ended = new Promise((resolve) => (this.#settle = resolve))
    this.answered = new Promise((resolve) => (this.#noteAnswer = resolve))
    this.#forget = supervisor.listen((answer) => this.#take(answer))
    void supervisor.exited.then(() => this.#onSupervisorDeath())
    const { command, args, environment, stdin } = work
    supervisor.send({ type: 'start', run: id, command, args, environment, stdin, deadlines, graceMs })
    this.#awaitStart()
  }

  extend(deadlines: Deadlines): void {
    this.#deadlines = deadlines
    this.#supervisor.send({ type: 'extend', run: this.#id, deadlines })
    this.#enforcer?.extend(deadlines)
    this.#awaitStart()
  }

  /** Signals the command to end, and kills it after `withinMs` or at the deadline, whichever is sooner. */
  end(signal: NodeJS.Signals, withinMs: number): void {
    this.wasAskedToEnd = true
    const killAt = addMs(now(), withinMs)
    this.#order = { signal, killAt }
    this.#supervisor.send({ type: 'end', run: this.#id, signal, killAt })
    this.#enforcer?.end(signal, killAt)
    this.#awaitStart()
  }

  /** Kills the command at once. */
  kill(): void {
    this.#isHurried = true
    this.end('SIGTERM', 0)
    this.#enforcer?.kill()
  }

  signal(signal: NodeJS.Signals): void {
    this.#supervisor.send({ type: 'signal', run: this.#id, signal })
  }

  /**
   * Stops or continues all processes of the run directly, so that it takes effect at once even while the supervisor is
   * slow.
   */
  signalNow(signal: 'SIGSTOP' | 'SIGCONT'): void {
    if (this.#session && !this.#isGone) signalSession(this.#session, signal)
  }

  #take(answer: SupervisorAnswer): void {
    if (!('run' in answer) || answer.run !== this.#id) return
    this.#noteAnswer()
    if (answer.type === 'started') this.#begin(answer.session)
    else if (answer.type === 'told') {
      this.wasAskedToEnd = true
      this.#enforcer?.noteSignaled()
    } else if (answer.type === 'gone') {
      this.#end = { type: 'exited', code: answer.code, signal: answer.signal }
      // The supervisor no longer watches this run. If any processes are left anyway, the wrapper ends them.
      this.#enforcer?.noteExit()
      this.#finish()
    } else if (answer.type === 'not-started') {
      this.#end = { type: 'not-started', error: answer.error, code: answer.code }
      this.#isGone = true
      this.#finish()
    }
  }

  /**
   * While the supervisor is starting the command, possibly blocked on a disk, it cannot enforce a deadline. So if no
   * start was reported in time, kill the supervisor.
   */
  #awaitStart(): void {
    if (this.#enforcer || this.#end) return
    this.#cancel()
    const moments = [this.#answerBy, this.#deadlines.killAt, ...(this.#order ? [this.#order.killAt] : [])]
    const waitMs = Math.min(...moments.map((moment) => untilMs(moment)))
    this.#cancel = setTimerAfterInput(Math.min(waitMs, tickMs), () =>
      waitMs <= tickMs ? this.#supervisor.kill() : this.#awaitStart(),
    )
  }

  #begin(session: CommandSession): void {
    this.#cancel()
    this.#session = session
    this.#enforcer = new Enforcer({
      session,
      deadlines: this.#deadlines,
      graceMs: this.#graceMs,
      signalDelayMs: signalGraceMs,
      // Resume the supervisor in case it is stopped, so that it reaps the killed processes. On some systems a zombie
      // looks like a running process until its parent reaps it.
      onKill: () => this.#supervisor.wake(),
      onRefused: (error) => {
        if (!this.#refused) this.#tell(`cannot signal some of the command's processes: ${error.message}`)
        this.#refused = true
      },
      onGone: () => {
        this.#isGone = true
        this.#awaitFinalReport()
        this.#finish()
      },
    })
    if (this.#order) this.#enforcer.end(this.#order.signal, this.#order.killAt)
    if (this.#isHurried || !this.#supervisor.isAlive) this.#enforcer.kill()
  }

  /**
   * Called when no process is left but the supervisor has not reported it. Wakes the supervisor in case it is stopped,
   * and kills it if it still does not answer.
   */
  #awaitFinalReport(): void {
    if (this.#end || !this.#supervisor.isAlive) return
    this.#supervisor.wake()
    this.#cancel = setTimerAfterInput(lastAnswerWithinMs, () => this.#supervisor.kill())
  }

  /** Ends any processes that the supervisor has started. The supervisor is dead, so it starts no more. */
  #onSupervisorDeath(): void {
    this.#noteAnswer()
    if (this.#end) return
    this.#end = { type: 'unknown' }
    this.#cancel()
    if (this.#enforcer) {
      this.#enforcer.kill()
      return this.#finish()
    }
    this.#search(addMs(now(), lateStartMs), this.#supervisor.children)
  }

  /** Searches for a command that the supervisor started but did not report before it died. */
  #search(until: Moment, known: readonly CommandSession[]): void {
    // The last answer from the supervisor was read only now.
    if (this.#enforcer || this.#isGone) return
    const { sessions, isComplete } = findMarkedSessions((entry) => entry === this.#work.marker, this.#supervisor.mark)
    const isNew = ({ id, startedAt }: CommandSession) =>
      !known.some((each) => each.id === id && each.startedAt === startedAt)
    const all = [...known, ...sessions.filter(isNew)]
    for (const session of all) signalSession(session, 'SIGKILL')
    // One list of processes may miss a process that an earlier list showed.
    const isOver = isComplete && untilMs(until) <= 0 && all.every((session) => isGone(session))
    if (!isOver) return void setTimer(20, () => this.#search(until, all))
    this.#isGone = true
    this.#finish()
  }

  #finish(): void {
    if (!this.#end || !this.#isGone) return
    this.#cancel()
    this.#forget()
    this.#settle(this.#end)
  }
}
