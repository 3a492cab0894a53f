import { later, now, setPatientTimer, setTimer, untilMs, type Moment } from '../clock.ts'
import { Guard } from './guard.ts'
import type { Answer, Deadlines, Order } from './protocol.ts'
import { isGone, sessionsMarked, signalSession, type Session } from './session.ts'

/** How a command ended. Its own exit, or why there is none. */
export type RunEnd =
  | { readonly type: 'exited'; readonly code: number | null; readonly signal: NodeJS.Signals | null }
  | { readonly type: 'not-started'; readonly error: string; readonly code: string | undefined }
  /** The supervisor died or did not answer. */
  | { readonly type: 'unknown' }

/** What to start. */
export interface Work {
  readonly command: string
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly stdin: 'inherit' | 'ignore'
  /** An entry of its environment that no other command has: how its processes are found if nobody told their ids. */
  readonly mark: string
}

/** What a run needs of the supervisor. */
interface Supervisor {
  readonly isAlive: boolean
  readonly exited: Promise<void>
  /** An argument that only it has, and whom it has forked for a command and who did not execute that yet. */
  readonly mark: string
  /** Whom it had started when it was killed. */
  readonly children: readonly Session[]
  send(order: Order): void
  listen(listener: (answer: Answer) => void): () => void
  wake(): void
  kill(): void
}

/** The supervisor tells the command to end; only if it does not, the wrapper does. */
const patienceMs = 250
/** So long a supervisor may take to answer before it counts as lost. */
export const answerWithinMs = 5_000
/** And so long once everything that it watched over has ended. */
const lastAnswerWithinMs = 3_000
/** A process that was being started when the supervisor was killed shows within this time. */
const lateStartMs = 500
/** How often to look at the clock that counts sleep: no timer does. */
const tickMs = 250

/** One command under guard, from the order to start it until nobody of it is left. */
export class Run {
  /** Settles when everything has ended, and never before. */
  readonly ended: Promise<RunEnd>
  /** Whether the command did not exit by itself. */
  wasTold = false
  readonly #supervisor: Supervisor
  readonly #id: number
  readonly #work: Work
  readonly #graceMs: number
  readonly #tell: (text: string) => void
  readonly #forget: () => void
  readonly #answerBy = later(now(), answerWithinMs)
  #deadlines: Deadlines
  #guard: Guard | undefined
  #session: Session | undefined
  #end: RunEnd | undefined
  #order: { readonly signal: NodeJS.Signals; readonly killAt: Moment } | undefined
  #isHurried = false
  #isGone = false
  #refused = false
  #cancel: () => void = () => {}
  #settle: (end: RunEnd) => void = () => {}

  constructor(
    supervisor: Supervisor,
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
    this.#guard?.extend(deadlines)
    this.#awaitStart()
  }

  /** Tells the command to end, and kills it after a while, or at the deadline. */
  end(signal: NodeJS.Signals, withinMs: number): void {
    this.wasTold = true
    const killAt = later(now(), withinMs)
    this.#order = { signal, killAt }
    this.#supervisor.send({ type: 'end', run: this.#id, signal, killAt })
    this.#guard?.end(signal, killAt)
    this.#awaitStart()
  }

  /** Kills it at once. */
  kill(): void {
    this.#isHurried = true
    this.end('SIGTERM', 0)
    this.#guard?.kill()
  }

  signal(signal: NodeJS.Signals): void {
    this.#supervisor.send({ type: 'signal', run: this.#id, signal })
  }

  /** Stops or continues all of it from here: at once, also while the supervisor takes its time. */
  signalNow(signal: 'SIGSTOP' | 'SIGCONT'): void {
    if (this.#session && !this.#isGone) signalSession(this.#session, signal)
  }

  #take(answer: Answer): void {
    if (!('run' in answer) || answer.run !== this.#id) return
    if (answer.type === 'started') this.#begin(answer.session)
    else if (answer.type === 'told') {
      this.wasTold = true
      this.#guard?.noteTold()
    } else if (answer.type === 'gone') {
      this.#end = { type: 'exited', code: answer.code, signal: answer.signal }
      // The supervisor watches no longer, so whoever is left after all is ended from here.
      this.#guard?.noteExit()
      this.#finish()
    } else if (answer.type === 'not-started') {
      this.#end = { type: 'not-started', error: answer.error, code: answer.code }
      this.#isGone = true
      this.#finish()
    }
  }

  /** While the supervisor starts the command, and perhaps waits for a disk, it ends nothing in time. */
  #awaitStart(): void {
    if (this.#guard || this.#end) return
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
    this.#guard = new Guard({
      session,
      deadlines: this.#deadlines,
      graceMs: this.#graceMs,
      patienceMs,
      // Where a zombie cannot be told from a process that runs, it takes the parent to bury it.
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
    if (this.#order) this.#guard.end(this.#order.signal, this.#order.killAt)
    if (this.#isHurried || !this.#supervisor.isAlive) this.#guard.kill()
  }

  /** Nobody is left, and the supervisor did not say so: it is woken, and if that does not help, ended. */
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
    if (this.#guard) {
      this.#guard.kill()
      return this.#finish()
    }
    this.#search(later(now(), lateStartMs), this.#supervisor.children)
  }

  /** It may have started the command and died before it could tell. */
  #search(until: Moment, known: readonly Session[]): void {
    // Its last words were read only now.
    if (this.#guard || this.#isGone) return
    const { sessions, isComplete } = sessionsMarked(this.#work.mark, this.#supervisor.mark)
    const isNew = ({ id, startedAt }: Session) => !known.some((each) => each.id === id && each.startedAt === startedAt)
    const all = [...known, ...sessions.filter(isNew)]
    for (const session of all) signalSession(session, 'SIGKILL')
    // One list may miss somebody whom those before it have shown.
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
