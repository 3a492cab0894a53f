import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

interface Reply {
  readonly result?: unknown
  readonly error?: { readonly message: string; readonly code?: string }
}

/** Why processes of other users cannot be started, or undefined if they can. */
export const noOtherUsers = process.getuid?.() === 0 ? undefined : 'only root can start processes of other users'

/** A process of another user on this machine. It ends with the test. */
export class User {
  readonly #process: ChildProcess

  private constructor(child: ChildProcess) {
    this.#process = child
  }

  /** Starts the process in its own group, unless a group is given. `execPath` is the Node.js that runs it. */
  static async start(user = 65_534, group = user, execPath = process.execPath): Promise<User> {
    const program = join(import.meta.dirname, 'other-user.mjs')
    const child = fork(program, [String(user), String(group)], { execPath, execArgv: [], stdio: 'inherit' })
    onTestFinished(async () => {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    })
    await reply(child)
    return new User(child)
  }

  async do<T>(command: string, ...values: unknown[]): Promise<T> {
    const answered = reply(this.#process)
    this.#process.send({ command, values })
    return (await answered) as T
  }
}

async function reply(child: ChildProcess): Promise<unknown> {
  const [message] = (await Promise.race([once(child, 'message'), once(child, 'exit')])) as [Reply | number]
  if (typeof message === 'number' || message === null) throw new Error(`The process ended with ${message}.`)
  if (message.error) throw Object.assign(new Error(message.error.message), message.error)
  return message.result
}
