import { addMs, now, setTimer, untilMs, type Moment } from '../shared/clock.ts'
import type { Deadlines } from './protocol.ts'
import { continueStopped, forgetLists, isGone, signalSession, type CommandSession } from './session.ts'

/** How often to compare with the clock that counts sleep. Timers do not count sleep. */
const tickMs = 250
/**
 * A process that checks a deadline this late was kept from running. Messages may be waiting in the pipe, so it reads
 * those first.
 */
const lateMs = 100
const firstCheckMs = 5
const longestCheckMs = 200

interface EnforcerOptions {
  readonly session: CommandSession
  readonly deadlines: Deadlines
  readonly graceMs: number
  /** How long to wait for the other process's enforcer to signal the command, so that it is signaled only once. */
  readonly signalDelayMs: number
  onSignaled?(): void
  onKill?(): void
  onRefused(error: Error): void
  /** Called once, when no process of the session is running anymore. */
  onGone(): void
}

/**
 * Ends a command in time: SIGTERM at the first deadline, SIGKILL at the second, repeated until no process of its
 * session is left.
 */
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
    forgetLists()
    this.#arm()
  }

  /** Moves the deadlines after a renewal. */
  extend(deadlines: Deadlines): void {
    this.#deadlines = deadlines
    // Do not check at once: after a stop several renewals may be waiting, and only the last one counts.
    if (!this.#isGone) this.#arm()
  }

  /** Signals the command to end, and kills it at `killAt` or at the deadline, whichever is sooner. */
  end(signal: NodeJS.Signals, killAt: Moment): void {
    this.#ending ??= { signal, tellAt: addMs(now(), this.#options.signalDelayMs) }
    if (!this.#killAt || untilMs(killAt) < untilMs(this.#killAt)) this.#killAt = killAt
    this.#check()
  }

  /** Records that the other enforcer has signaled the command. */
  noteSignaled(): void {
    this.#isTold = true
    this.#check()
  }

  /** Records that the first process of the command has exited. Its other processes have the grace period to end. */
  noteExit(): void {
    this.#looks = 0
    this.#isAlone = true
    if (!this.#look()) this.end('SIGTERM', addMs(now(), this.#options.graceMs))
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
      // Repeat the signal: a process may fork while the session is being listed.
      this.#beginToKill()
      this.#send('SIGKILL')
    } else if (!this.#isTold && this.#mustTell()) {
      this.#isTold = true
      // The command was signaled at the deadline, so a renewal that arrives later no longer saves it.
      if (!this.#ending) this.#killAt = this.#deadlines.killAt
      // Notify the other enforcer first, because finding the processes of the session takes a while on a busy machine.
      this.#options.onSignaled?.()
      this.#send(this.#ending?.signal ?? 'SIGTERM')
      continueStopped(this.#options.session)
    }
    if (this.#look()) return
    this.#arm()
  }

  #beginToKill(): void {
    if (this.#isKilled) return
    this.#isKilled = true
    // The checks became infrequent during the grace period. Start again with short intervals.
    this.#looks = 0
    this.#options.onKill?.()
  }

  #mustTell(): boolean {
    if (this.#ending && untilMs(this.#ending.tellAt) <= 0) return true
    return untilMs(this.#deadlines.termAt) <= -this.#options.signalDelayMs
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
      waits.push(untilMs(this.#deadlines.termAt) + this.#options.signalDelayMs)
      if (this.#ending) waits.push(untilMs(this.#ending.tellAt))
    }
    if (this.#isAlone || this.#isTold || this.#isKilled) {
      waits.push(Math.min(firstCheckMs * 2 ** this.#looks, longestCheckMs))
    }
    const waitMs = Math.min(...waits)
    const due = addMs(now(), waitMs)
    this.#cancel = setTimer(Math.max(waitMs, 1), () => {
      if (untilMs(due) > -lateMs) return this.#check()
      const immediate = setImmediate(() => this.#check())
      this.#cancel = () => clearImmediate(immediate)
    })
  }
}
