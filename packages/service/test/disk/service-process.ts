import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'

export interface Answer {
  readonly status: number
  readonly body: Record<string, unknown>
}

/** Options for starting a service in a separate process. */
export interface ProcessOptions {
  /** The data directory, or the URL of a server that replicas share. */
  readonly directory: string
  /** The address at which the other replicas reach this one. */
  readonly advertise?: string | undefined
  /** Default: a free port. */
  readonly port?: number | undefined
  /** The path of another build of the service. */
  readonly entry?: string | undefined
  readonly environment?: Readonly<Record<string, string>> | undefined
  /** Called with each line on standard error. */
  onLine?(line: string): void
}

/** A service in a separate process. It ends with the test, if not before. */
export class ServiceProcess {
  readonly child: ChildProcess
  readonly port: number
  readonly #agent = new Agent({ keepAlive: true, timeout: 20_000 })

  readonly #errors: Promise<string>

  private constructor(child: ChildProcess, port: number, errors: Promise<string>) {
    this.child = child
    this.port = port
    this.#errors = errors
  }

  static async start(options: ProcessOptions): Promise<ServiceProcess> {
    const { directory, port, advertise, entry, environment } = options
    const program = join(import.meta.dirname, '..', 'serve.mjs')
    const place = [directory, String(port ?? 0), ...(advertise === undefined ? [] : [advertise])]
    const child = spawn(process.execPath, [program, ...place], {
      // The last pipe takes commands for a preloaded library.
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      env: { ...process.env, ...(entry && { TENURE_SERVICE: entry }), ...environment },
    })
    onTestFinished(() => end(child))
    const errors = linesOf(child, (line) => options.onLine?.(line))
    const [said] = (await Promise.race([once(child.stdout ?? child, 'data'), once(child, 'exit')])) as [unknown]
    if (!(said instanceof Buffer)) throw new Error(`The service ended with ${String(said)}: ${await errors}`)
    return new ServiceProcess(child, Number(new URL(said.toString().trim()).port), errors)
  }

  /** Resolves to undefined if the service stopped or took too long. The outcome is then unknown. */
  async ask(
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    path: string,
    body?: object,
    { timeoutMs }: { readonly timeoutMs?: number } = {},
  ): Promise<Answer | undefined> {
    const sent = body && JSON.stringify(body)
    const headers = sent ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(sent) } : {}
    const signal = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs)
    try {
      const asked = request({ agent: this.#agent, port: this.port, host: '127.0.0.1', path, method, headers, signal })
      asked.end(sent)
      const [response] = (await once(asked, 'response')) as [IncomingMessage]
      return { status: response.statusCode ?? 0, body: JSON.parse(await text(response)) as Answer['body'] }
    } catch {
      return undefined
    }
  }

  /** Sends a command to a preloaded library. Resolves once the command has taken effect. */
  async command(letter: string): Promise<void> {
    const commands = this.child.stdio[3] as Socket
    const heard = once(commands, 'data')
    commands.write(letter)
    await heard
  }

  /** Sends a command that ends the process, and waits for its end. */
  async cutPower(letter: 'c' | 't'): Promise<void> {
    const exited = once(this.child, 'exit')
    ;(this.child.stdio[3] as Socket).write(letter)
    await exited
    this.#agent.destroy()
  }

  async kill(): Promise<void> {
    await end(this.child)
    this.#agent.destroy()
  }

  /** Stops the service cleanly. Returns everything that it wrote to standard error. */
  async stop(): Promise<string> {
    this.#agent.destroy()
    this.child.kill('SIGTERM')
    return this.#errors
  }
}

/** Resolves to the whole text. */
async function linesOf(child: ChildProcess, onLine: (line: string) => void): Promise<string> {
  let all = ''
  let rest = ''
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    all += chunk
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line)
  })
  await once(child, 'close')
  return all
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}
