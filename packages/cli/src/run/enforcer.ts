import { later, now, setTimer, untilMs, type Moment } from '../shared/clock.ts'
import type { Deadlines } from './protocol.ts'
import { continueStopped, isGone, signalSession, type Session } from './session.ts'

/** How often to look at the clock that counts sleep: no timer does. */
const tickMs = 250
/** A process that looks this late at a deadline was kept from running. News may wait in the pipe, and is read first. */
const lateMs = 100
const firstLookMs = 5
const slowestLookMs = 200

interface EnforcerOptions {
  readonly session: Session
  readonly deadlines: Deadlines
  readonly graceMs: number
  /** How long the other process's enforcer has to tell the command to end, so that it is told once. */
  readonly patienceMs: number
  onTold?(): void
  onKill?(): void
  onRefused(error: Error): void
  /** No process of the session runs any more. Called once. */
  onGone(): void
}

/** Ends a command in time: SIGTERM at one deadline, SIGKILL at the other, until no process of its session is left. */
export class Enforcer {
  readonly #options: EnforcerOptions
  #deadlines: Deadlines
  #ending: { readonly signal: NodeJS.Signals; readonly tellAt: Moment } | undefined
  #killAt: Moment | undefined
  #isTold = false
  #isAlone = false
  #isKilled = false
  #isGone = false
  #looks = 0
  #cancel: () => void = () => {}

  constructor(options: EnforcerOptions) {
    this.#options = options
    this.#deadlines = options.deadlines
    this.#arm()
  }

  /** The lease was renewed. */
  extend(deadlines: Deadlines): void {
    this.#deadlines = deadlines
    // Not at once: after a stop several renewals are read, and the last of them counts.
    if (!this.#isGone) this.#arm()
  }

  /** Tells the command to end, and kills it at a moment or at the deadline, whichever is sooner. */
  end(signal: NodeJS.Signals, killAt: Moment): void {
    this.#ending ??= { signal, tellAt: later(now(), this.#options.patienceMs) }
    if (!this.#killAt || untilMs(killAt) < untilMs(this.#killAt)) this.#killAt = killAt
    this.#check()
  }

  /** The other enforcer has told the command. */
  noteTold(): void {
    this.#isTold = true
    this.#check()
  }

  /** Its first process has exited. The others have the grace to end. */
  noteExit(): void {
    this.#looks = 0
    this.#isAlone = true
    if (!this.#look()) this.end('SIGTERM', later(now(), this.#options.graceMs))
  }

  kill(): void {
    this.#beginToKill()
    this.#check()
  }

  stop(): void {
    this.#isGone = true
    this.#cancel()
  }

  #check(): void {
    if (this.#isGone) return
    if (this.#isKilled || this.#untilKillMs() <= 0) {
      // Again and again: a child may be born while its siblings are counted.
      this.#beginToKill()
      this.#send('SIGKILL')
    } else if (!this.#isTold && this.#mustTell()) {
      this.#isTold = true
      // Told at the deadline: a renewal that arrives after it no longer saves the command.
      if (!this.#ending) this.#killAt = this.#deadlines.killAt
      // The other enforcer learns of it first: among many processes it takes a while to find those of the session.
      this.#options.onTold?.()
      this.#send(this.#ending?.signal ?? 'SIGTERM')
      continueStopped(this.#options.session)
    }
    if (this.#look()) return
    this.#arm()
  }

  #beginToKill(): void {
    if (this.#isKilled) return
    this.#isKilled = true
    // Looks have become rare while it had time to end.
    this.#looks = 0
    this.#options.onKill?.()
  }

  #mustTell(): boolean {
    if (this.#ending && untilMs(this.#ending.tellAt) <= 0) return true
    return untilMs(this.#deadlines.termAt) <= -this.#options.patienceMs
  }

  #look(): boolean {
    if (this.#isGone) return true
    if (this.#isAlone || this.#isTold || this.#isKilled) this.#looks += 1
    if (!isGone(this.#options.session)) return false
    this.stop()
    this.#options.onGone()
    return true
  }

  #send(signal: NodeJS.Signals): void {
    const refusal = signalSession(this.#options.session, signal)
    if (refusal) this.#options.onRefused(refusal)
  }

  #untilKillMs(): number {
    return Math.min(untilMs(this.#deadlines.killAt), this.#killAt ? untilMs(this.#killAt) : Infinity)
  }

  #arm(): void {
    this.#cancel()
    const waits = [tickMs]
    if (!this.#isKilled) waits.push(this.#untilKillMs())
    if (!this.#isKilled && !this.#isTold) {
      waits.push(untilMs(this.#deadlines.termAt) + this.#options.patienceMs)
      if (this.#ending) waits.push(untilMs(this.#ending.tellAt))
    }
    if (this.#isAlone || this.#isTold || this.#isKilled) {
      waits.push(Math.min(firstLookMs * 2 ** this.#looks, slowestLookMs))
    }
    const waitMs = Math.min(...waits)
    const due = later(now(), waitMs)
    this.#cancel = setTimer(Math.max(waitMs, 1), () => {
      if (untilMs(due) > -lateMs) return this.#check()
      const immediate = setImmediate(() => this.#check())
      this.#cancel = () => clearImmediate(immediate)
    })
  }
}
