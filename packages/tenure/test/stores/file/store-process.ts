import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import type { FileStoreOptions } from '../../../src/stores/file/index.ts'

interface Reply {
  id: number
  result?: unknown
  error?: { name: string; message: string; code?: string }
  atMs: number
}

/** A process with its own file store. Ends with the test. */
export class Child {
  readonly process: ChildProcess
  /** The terms it was granted during `countUp`. */
  readonly terms: number[] = []
  #calls = 0

  private constructor() {
    const program = fileURLToPath(new URL('./store-process.mjs', import.meta.url))
    this.process = fork(program, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'], execArgv: [] })
    this.process.on('message', ({ term }: { term?: number }) => {
      if (term !== undefined) this.terms.push(term)
    })
    onTestFinished(() => this.kill())
  }

  static async start(options?: FileStoreOptions): Promise<Child> {
    const child = new Child()
    if (options) await child.call('open', options)
    return child
  }

  async call<T = unknown>(command: string, value?: unknown): Promise<T> {
    return (await this.timed(command, value)).result as T
  }

  /** The result, and the time on the machine's clock at which the child had it. */
  async timed(command: string, value?: unknown): Promise<{ result: unknown; atMs: number }> {
    if (!this.process.connected) throw new Error(`The process has ended: it cannot ${command}.`)
    const id = this.#calls++
    const reply = new Promise<Reply>((resolve, reject) => {
      const onMessage = (message: Reply) => {
        if (message.id !== id) return
        this.process.off('message', onMessage)
        this.process.off('exit', onExit)
        resolve(message)
      }
      const onExit = () => reject(new Error(`The process ended during ${command}.`))
      this.process.on('message', onMessage)
      this.process.once('exit', onExit)
    })
    this.process.send({ id, command, value })
    const { result, error, atMs } = await reply
    if (error) throw Object.assign(new Error(error.message), error)
    return { result, atMs }
  }

  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return
    const ended = once(this.process, 'exit')
    this.process.kill('SIGKILL')
    await ended
  }

  /** Pauses the process, as a debugger or a lack of memory would. */
  pause(): void {
    this.process.kill('SIGSTOP')
  }

  resume(): void {
    this.process.kill('SIGCONT')
  }
}
