import { later, now, setPatientTimer, setTimer, untilMs, type Moment } from '../shared/clock.ts'
import { Enforcer } from './enforcer.ts'
import { answerWithinMs, type Answer, type Deadlines } from './protocol.ts'
import type { RunEnd } from './run-end.ts'
import { isGone, sessionsMarked, signalSession, type Session } from './session.ts'
import type { SupervisorProcess } from './supervisor-process.ts'

/** What to start. */
export interface Work {
  readonly command: string
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly stdin: 'inherit' | 'ignore'
  /** An entry of its environment that no other command has: it finds processes whose ids were never reported. */
  readonly mark: string
}

/** The supervisor tells the command to end; the wrapper does only if the supervisor has not. */
const patienceMs = 250
/** A supervisor that takes longer to answer once everything that it watched over has ended counts as lost. */
const lastAnswerWithinMs = 3_000
/** A process that was being started when the supervisor was killed shows within this time. */
const lateStartMs = 500
/** How often to look at the clock that counts sleep: no timer does. */
const tickMs = 250

/** One run of the command under supervision, from the order to start it until none of its processes is left. */
export class CommandRun {
  /** Settles when everything has ended, and never before. */
  readonly ended: Promise<RunEnd>
  /** Whether the command did not exit by itself. */
  wasTold = false
  readonly #supervisor: SupervisorProcess
  readonly #id: number
  readonly #work: Work
  readonly #graceMs: number
  readonly #tell: (text: string) => void
  readonly #forget: () => void
  readonly #answerBy = later(now(), answerWithinMs)
  #deadlines: Deadlines
  #enforcer: Enforcer | undefined
  #session: Session | undefined
  #end: RunEnd | undefined
  #order: { readonly signal: NodeJS.Signals; readonly killAt: Moment } | undefined
  #isHurried = false
  #isGone = false
  #refused = false
  #cancel: () => void = () => {}
  #settle: (end: RunEnd) => void = () => {}

  constructor(
    supervisor: SupervisorProcess,
    id: number,
    work: Work,
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
    this.#forget = supervisor.listen((answer) => this.#take(answer))
    void supervisor.exited.then(() => this.#bereaved())
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

  /** Tells the command to end, and kills it after a while, or at the deadline. */
  end(signal: NodeJS.Signals, withinMs: number): void {
    this.wasTold = true
    const killAt = later(now(), withinMs)
    this.#order = { signal, killAt }
    this.#supervisor.send({ type: 'end', run: this.#id, signal, killAt })
    this.#enforcer?.end(signal, killAt)
    this.#awaitStart()
  }

  /** Kills it at once. */
  kill(): void {
    this.#isHurried = true
    this.end('SIGTERM', 0)
    this.#enforcer?.kill()
  }

  signal(signal: NodeJS.Signals): void {
    this.#supervisor.send({ type: 'signal', run: this.#id, signal })
  }

  /** Stops or continues all of it from here: at once, even while the supervisor is slow. */
  signalNow(signal: 'SIGSTOP' | 'SIGCONT'): void {
    if (this.#session && !this.#isGone) signalSession(this.#session, signal)
  }

  #take(answer: Answer): void {
    if (!('run' in answer) || answer.run !== this.#id) return
    if (answer.type === 'started') this.#begin(answer.session)
    else if (answer.type === 'told') {
      this.wasTold = true
      this.#enforcer?.noteTold()
    } else if (answer.type === 'gone') {
      this.#end = { type: 'exited', code: answer.code, signal: answer.signal }
      // The supervisor no longer watches, so processes that are left after all are ended from here.
      this.#enforcer?.noteExit()
      this.#finish()
    } else if (answer.type === 'not-started') {
      this.#end = { type: 'not-started', error: answer.error, code: answer.code }
      this.#isGone = true
      this.#finish()
    }
  }

  /** While the supervisor starts the command, and perhaps waits for a disk, it ends nothing in time. */
  #awaitStart(): void {
    if (this.#enforcer || this.#end) return
    this.#cancel()
    const moments = [this.#answerBy, this.#deadlines.killAt, ...(this.#order ? [this.#order.killAt] : [])]
    const waitMs = Math.min(...moments.map((moment) => untilMs(moment)))
    this.#cancel = setPatientTimer(Math.min(waitMs, tickMs), () =>
      waitMs <= tickMs ? this.#supervisor.kill() : this.#awaitStart(),
    )
  }

  #begin(session: Session): void {
    this.#cancel()
    this.#session = session
    this.#enforcer = new Enforcer({
      session,
      deadlines: this.#deadlines,
      graceMs: this.#graceMs,
      patienceMs,
      // Where a zombie looks like a process that runs, only its parent can reap it.
      onKill: () => this.#supervisor.wake(),
      onRefused: (error) => {
        if (!this.#refused) this.#tell(`some of the command's processes cannot be ended: ${error.message}`)
        this.#refused = true
      },
      onGone: () => {
        this.#isGone = true
        this.#askLast()
        this.#finish()
      },
    })
    if (this.#order) this.#enforcer.end(this.#order.signal, this.#order.killAt)
    if (this.#isHurried || !this.#supervisor.isAlive) this.#enforcer.kill()
  }

  /** No process is left, and the supervisor has not reported it: it is woken, and if that does not help, killed. */
  #askLast(): void {
    if (this.#end || !this.#supervisor.isAlive) return
    this.#supervisor.wake()
    this.#cancel = setPatientTimer(lastAnswerWithinMs, () => this.#supervisor.kill())
  }

  /** The supervisor has died, so nothing starts any more; what it started ends now. */
  #bereaved(): void {
    if (this.#end) return
    this.#end = { type: 'unknown' }
    this.#cancel()
    if (this.#enforcer) {
      this.#enforcer.kill()
      return this.#finish()
    }
    this.#search(later(now(), lateStartMs), this.#supervisor.children)
  }

  /** It may have started the command and died before it could report that. */
  #search(until: Moment, known: readonly Session[]): void {
    // Its last words were read only now.
    if (this.#enforcer || this.#isGone) return
    const { sessions, isComplete } = sessionsMarked(this.#work.mark, this.#supervisor.mark)
    const isNew = ({ id, startedAt }: Session) => !known.some((each) => each.id === id && each.startedAt === startedAt)
    const all = [...known, ...sessions.filter(isNew)]
    for (const session of all) signalSession(session, 'SIGKILL')
    // One list may miss a process that earlier ones have shown.
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
