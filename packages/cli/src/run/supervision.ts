import { spawn, type ChildProcess } from 'node:child_process'
import type { Server } from 'node:net'
import { fileURLToPath } from 'node:url'
import { randomId, setPatientTimer } from '../clock.ts'
import { CommandError, exitCodes } from '../errors.ts'
import { answerWithinMs, Run, type Work } from './guarded-run.ts'
import type { Answer, Deadlines, Order } from './protocol.ts'
import { childrenOf, type Session } from './session.ts'
import { listen, remove, serve } from './sign-of-life.ts'

/** The wrapper's side: starts the supervisor, gives it orders, and does its work if it does not. */
export class Supervision {
  readonly #election: string
  readonly #tell: (text: string) => void
  readonly #signs = new Map<string, Server>()
  #supervisor: Supervisor | undefined
  #shared: Promise<void> | undefined
  #folder: string | undefined
  #runs = 0
  #isClosed = false

  constructor(options: { election: string; tell(text: string): void }) {
    this.#election = options.election
    this.#tell = options.tell
  }

  /** A supervisor that answers, and holds all signs of life; another one if the last has died. */
  async ready(): Promise<Supervisor> {
    if (this.#isClosed) throw new Error('The supervision has ended.')
    let supervisor = this.#supervisor
    if (!supervisor?.isAlive) {
      supervisor = new Supervisor(this.#election)
      this.#supervisor = supervisor
      this.#shared = this.#share(supervisor)
    }
    await this.#shared
    return supervisor
  }

  async #share(supervisor: Supervisor): Promise<void> {
    await supervisor.ready
    if (this.#folder !== undefined) supervisor.send({ type: 'keep', folder: this.#folder })
    for (const [sign, server] of this.#signs) await supervisor.hold(sign, server)
  }

  /** A folder that goes with this process, however it ends. */
  keep(folder: string): void {
    this.#folder = folder
    this.#supervisor?.send({ type: 'keep', folder })
  }

  /** Opens a sign of life that ends with the last of both processes. */
  async openSign(sign: string, path: string): Promise<{ path: string; close(): Promise<void> }> {
    const supervisor = await this.ready()
    const server = await listen(path)
    const close = serve(server)
    this.#signs.set(sign, server)
    const end = async () => {
      if (!(await remove(path))) return
      this.#signs.delete(sign)
      this.#supervisor?.send({ type: 'drop', sign })
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
  /** What nobody else has as an argument, except for a child that was forked and does not execute anything yet. */
  readonly mark = randomId()
  /** Those that ran when it was killed. */
  children: readonly Session[] = []
  readonly #process: ChildProcess
  #failure = new CommandError('The supervisor does not answer.', exitCodes.failed)
  readonly #listeners = new Set<(answer: Answer) => void>()

  constructor(election: string) {
    const file = fileURLToPath(new URL('supervisor.js', import.meta.url))
    // What is meant for the command's own Node, or for ours, has no business here.
    const { NODE_OPTIONS: _, ...env } = process.env
    try {
      this.#process = spawn(process.execPath, [file, this.mark, election], {
        detached: true,
        env,
        stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
      })
    } catch (error) {
      throw notStarted(error as Error)
    }
    this.exited = new Promise((resolve) => {
      const end = () => {
        this.isAlive = false
        resolve()
      }
      this.#process.once('exit', end)
      this.#process.on('error', (error): void => {
        // Not only a failed start is told here, a failed message is too.
        if (this.#process.pid !== undefined) return
        this.#failure = notStarted(error)
        end()
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
    if (!this.isAlive || this.#process.pid === undefined) return
    this.children = childrenOf(this.#process.pid)
    this.#process.kill('SIGKILL')
  }

  async close(): Promise<void> {
    if (this.#process.connected) this.#process.disconnect()
    const cancel = setPatientTimer(answerWithinMs, () => this.kill())
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
      const fail = () => settle(() => reject(this.#failure))
      const forget = this.listen((answer) => {
        if (isIt(answer)) settle(resolve)
      })
      const cancel = setPatientTimer(answerWithinMs, () => {
        this.kill()
        fail()
      })
      void this.exited.then(fail)
    })
  }
}

/** Some reasons are told by an event, and others are thrown. */
function notStarted({ message }: Error): CommandError {
  return new CommandError(`The supervisor cannot be started: ${message}`, exitCodes.failed)
}
