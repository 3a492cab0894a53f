import { spawn, type ChildProcess } from 'node:child_process'
import type { Server } from 'node:net'
import { fileURLToPath } from 'node:url'
import { later, now, setTimer, type Moment } from '../clock.ts'
import { CommandError, exitCodes } from '../errors.ts'
import { Guard } from './guard.ts'
import type { Answer, Deadlines, Order } from './protocol.ts'
import { isGone, sessionsMarked, signalSession, type Session } from './session.ts'
import { listen, remove, serve } from './sign-of-life.ts'

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
  /** A variable and its value that no other command has: how its processes are found if nobody told their ids. */
  readonly mark: readonly [variable: string, value: string]
}

/** The supervisor tells the command to end; only if it does not, the wrapper does. */
const patienceMs = 250
/** So long a supervisor may take to answer before it counts as lost. */
const answerWithinMs = 5_000
/** And so long once everything that it watched over has ended. */
const lastAnswerWithinMs = 3_000
/** A process that was being started when the supervisor was killed shows within this time. */
const lateStartMs = 500

/** The wrapper's side: starts the supervisor, gives it orders, and does its work if it does not. */
export class Supervision {
  readonly #folder: string
  readonly #election: string
  readonly #tell: (text: string) => void
  #supervisor: Supervisor | undefined
  #runs = 0
  #isClosed = false

  constructor(options: { folder: string; election: string; tell(text: string): void }) {
    this.#folder = options.folder
    this.#election = options.election
    this.#tell = options.tell
  }

  /** A supervisor that answers; another one if the last has died. */
  async ready(): Promise<Supervisor> {
    if (this.#isClosed) throw new Error('The supervision has ended.')
    if (!this.#supervisor?.isAlive) this.#supervisor = new Supervisor(this.#folder, this.#election)
    await this.#supervisor.ready
    return this.#supervisor
  }

  /** Opens a sign of life that ends with the last of both processes. */
  async openSign(sign: string, path: string): Promise<{ path: string; close(): Promise<void> }> {
    const supervisor = await this.ready()
    const server = await listen(path)
    const close = serve(server)
    const end = async () => {
      if (!(await remove(path))) return
      supervisor.send({ type: 'drop', sign })
      close()
    }
    try {
      await supervisor.hold(sign, server)
    } catch (error) {
      await end()
      throw error
    }
    return { path, close: end }
  }

  async start(work: Work, deadlines: Deadlines, graceMs: number): Promise<Run> {
    const supervisor = await this.ready()
    return new Run(supervisor, (this.#runs += 1), work, deadlines, graceMs, this.#tell)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#supervisor?.close()
  }
}

/** One supervisor process. */
class Supervisor {
  readonly ready: Promise<void>
  readonly exited: Promise<void>
  isAlive = true
  readonly #process: ChildProcess
  readonly #listeners = new Set<(answer: Answer) => void>()

  constructor(folder: string, election: string) {
    const file = fileURLToPath(new URL('supervisor.js', import.meta.url))
    // What is meant for the command's own Node, or for ours, has no business here.
    const { NODE_OPTIONS: _, ...env } = process.env
    this.#process = spawn(process.execPath, [file, folder, election], {
      detached: true,
      env,
      stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    })
    this.exited = new Promise((resolve) => {
      const end = () => {
        this.isAlive = false
        resolve()
      }
      this.#process.once('exit', end)
      this.#process.on('error', (): void => {
        // Not only a failed start is told here, a failed message is too.
        if (this.#process.pid === undefined) end()
      })
    })
    this.#process.on('message', (answer: Answer) => {
      for (const listener of this.#listeners) listener(answer)
    })
    this.ready = this.#within(({ type }) => type === 'ready')
    // Whoever waits for it is told.
    this.ready.catch(() => {})
  }

  send(order: Order): void {
    if (this.#process.connected) this.#process.send(order, () => {})
  }

  async hold(sign: string, server: Server): Promise<void> {
    const held = this.#within((answer) => answer.type === 'held' && answer.sign === sign)
    if (this.#process.connected) this.#process.send({ type: 'hold', sign } satisfies Order, server, () => {})
    await held
  }

  listen(listener: (answer: Answer) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Somebody may have stopped it, by mistake. */
  wake(): void {
    if (this.isAlive) this.#process.kill('SIGCONT')
  }

  kill(): void {
    if (this.isAlive) this.#process.kill('SIGKILL')
  }

  async close(): Promise<void> {
    if (this.#process.connected) this.#process.disconnect()
    const cancel = setTimer(answerWithinMs, () => this.kill())
    this.wake()
    await this.exited
    cancel()
  }

  #within(isIt: (answer: Answer) => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (outcome: () => void) => {
        cancel()
        forget()
        outcome()
      }
      const fail = () => settle(() => reject(new CommandError('The supervisor does not answer.', exitCodes.failed)))
      const forget = this.listen((answer) => {
        if (isIt(answer)) settle(resolve)
      })
      const cancel = setTimer(answerWithinMs, () => {
        this.kill()
        fail()
      })
      void this.exited.then(fail)
    })
  }
}

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
    this.#cancel = setTimer(answerWithinMs, () => supervisor.kill())
  }

  extend(deadlines: Deadlines): void {
    this.#deadlines = deadlines
    this.#supervisor.send({ type: 'extend', run: this.#id, deadlines })
    this.#guard?.extend(deadlines)
  }

  /** Tells the command to end, and kills it after a while, or at the deadline. */
  end(signal: NodeJS.Signals, withinMs: number): void {
    this.wasTold = true
    const killAt = later(now(), withinMs)
    this.#order = { signal, killAt }
    this.#supervisor.send({ type: 'end', run: this.#id, signal, killAt })
    this.#guard?.end(signal, killAt)
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
      this.#guard?.check()
      this.#finish()
    } else if (answer.type === 'not-started') {
      this.#end = { type: 'not-started', error: answer.error, code: answer.code }
      this.#isGone = true
      this.#finish()
    }
  }

  #begin(session: Session): void {
    this.#cancel()
    this.#session = session
    this.#guard = new Guard({
      session,
      deadlines: this.#deadlines,
      graceMs: this.#graceMs,
      patienceMs,
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
    this.#cancel = setTimer(lastAnswerWithinMs, () => this.#supervisor.kill())
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
    this.#search(later(now(), lateStartMs))
  }

  /** It may have started the command and died before it could tell. */
  #search(until: Moment): void {
    const sessions = sessionsMarked(...this.#work.mark)
    for (const session of sessions) signalSession(session, 'SIGKILL')
    const isOver = now().machineMs >= until.machineMs && sessions.every((session) => isGone(session))
    if (!isOver) return void setTimer(20, () => this.#search(until))
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
