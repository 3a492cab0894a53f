import { spawn, type ChildProcess } from 'node:child_process'
import type { Server, Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { CommandError, exitCodes } from '../shared/arguments/errors.ts'
import { randomId, setTimerAfterInput } from '../shared/clock.ts'
import { withoutSecrets } from './environment.ts'
import { answerWithinMs, type SupervisorAnswer, type Order } from './protocol.ts'
import { childrenOf, type CommandSession } from './session.ts'

/** The wrapper's handle on one supervisor process. It sends orders, receives answers, and notices its end. */
export class SupervisorProcess {
  readonly ready: Promise<void>
  readonly exited: Promise<void>
  isAlive = true
  /**
   * An argument that identifies this supervisor. A child that the supervisor has forked also has it until the child
   * executes its own program.
   */
  readonly mark = randomId()
  /** The processes that the supervisor had started when it was killed. */
  children: readonly CommandSession[] = []
  readonly #process: ChildProcess
  #failure = new CommandError('The supervisor process does not answer.', exitCodes.failed)
  readonly #listeners = new Set<(answer: SupervisorAnswer) => void>()

  constructor(election: string) {
    const file = fileURLToPath(new URL('supervisor.js', import.meta.url))
    // NODE_OPTIONS may be meant for the command or for this process, but not for the supervisor.
    const { NODE_OPTIONS: _, ...env } = withoutSecrets(process.env)
    try {
      this.#process = spawn(process.execPath, [file, this.mark, election], {
        detached: true,
        env,
        stdio: ['inherit', 'inherit', 'inherit', 'ipc', 'pipe'],
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
        // This event also reports failed messages, not only a failed start.
        if (this.#process.pid !== undefined) return
        this.#failure = notStarted(error)
        end()
      })
    })
    this.#process.on('message', (answer: SupervisorAnswer) => {
      for (const listener of this.#listeners) listener(answer)
    })
    this.ready = this.#within(({ type }) => type === 'ready')
    // Avoids an unhandled rejection. Every caller that awaits `ready` gets the error.
    this.ready.catch(() => {})
  }

  /** The pipe to the guard in the supervisor. */
  get guardPipe(): Socket {
    return this.#process.stdio[4] as Socket
  }

  send(order: Order): void {
    if (this.#process.connected) this.#process.send(order, () => {})
  }

  async hold(sign: string, server: Server): Promise<void> {
    const held = this.#within((answer) => answer.type === 'held' && answer.socketId === sign)
    if (this.#process.connected) this.#process.send({ type: 'hold', socketId: sign } satisfies Order, server, () => {})
    await held
  }

  listen(listener: (answer: SupervisorAnswer) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Continues the supervisor in case something has stopped it. */
  wake(): void {
    if (this.isAlive) this.#process.kill('SIGCONT')
  }

  kill(): void {
    if (!this.isAlive || this.#process.pid === undefined) return
    this.children = childrenOf(this.#process.pid)
    this.#process.kill('SIGKILL')
  }

  async close(): Promise<void> {
    // This process exits cleanly, so the supervisor must not wait for a crash.
    this.guardPipe.destroy()
    if (this.#process.connected) this.#process.disconnect()
    const cancel = setTimerAfterInput(answerWithinMs, () => this.kill())
    this.wake()
    await this.exited
    cancel()
  }

  #within(isIt: (answer: SupervisorAnswer) => boolean): Promise<void> {
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
      const cancel = setTimerAfterInput(answerWithinMs, () => {
        this.kill()
        fail()
      })
      void this.exited.then(fail)
    })
  }
}

/** The error for a supervisor that did not start. Node reports some start failures as an event and throws others. */
function notStarted({ message }: Error): CommandError {
  return new CommandError(`Cannot start the supervisor process: ${message}`, exitCodes.failed)
}
