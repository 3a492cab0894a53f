import { spawn, type ChildProcess } from 'node:child_process'
import { chownSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pathOf, type Program } from './find-program.ts'
import { freePort } from './free-port.ts'
import { end, isRunning } from './process.ts'
import { startWatchdog, type Watchdog } from './watchdog.ts'

/** The user that a server runs as. */
export interface User {
  readonly uid: number
  readonly gid: number
}

/** The location of one server of a test. */
export interface ServerLocation {
  /** The program's path. */
  readonly path: string
  /** A new, empty directory. */
  readonly directory: string
  readonly port: number
  readonly user: User | undefined
}

/** The properties that differ between kinds of servers. */
export interface ServerKind {
  readonly name: string
  readonly program: Program
  /** The user to run the server as if it must not run as root. */
  user?(): User | undefined
  /** Runs once, before the first start. */
  prepare?(place: ServerLocation): void
  args(place: ServerLocation): string[]
  /** The distance to the second port that the server opens, if any. */
  readonly secondPort?: number
  /** Returns additional environment variables. */
  env?(place: ServerLocation): Record<string, string>
  /** Resolves when the server answers, rejects while it does not. */
  probe(place: ServerLocation): Promise<unknown>
  url(port: number): string
  /** The signal that ends the server at once. Its data is deleted anyway. */
  readonly stopSignal: NodeJS.Signals
}

/** A server that a test started. */
export interface RunningServer {
  readonly url: string
  readonly port: number
  readonly pid: number
  readonly directory: string
  /** Ends the process with this signal. Its data and its port stay. */
  kill(signal: NodeJS.Signals): Promise<void>
  /** Starts it again after `kill`, with the same port and data. */
  start(): Promise<void>
  /** `kill`, a pause, and `start`. */
  restart(signal: NodeJS.Signals, options?: { readonly downForMs?: number }): Promise<void>
  /** Pauses the process until `resume`. */
  pause(): void
  resume(): void
  /** Ends the process by its id and deletes its data. */
  stop(): Promise<void>
}

const readyWithinMs = 30_000

/** Starts a server on a free loopback port with a fresh data directory, and waits until it answers. */
export async function start(kind: ServerKind, path = pathOf(kind.program)): Promise<RunningServer> {
  const user = kind.user?.()
  const directory = mkdtempSync(join(process.env['TENURE_SERVER_DATA'] ?? tmpdir(), `tenure-${kind.program.binary}-`))
  const watchdog = startWatchdog(kind.stopSignal, directory)
  const remove = () => {
    watchdog.dismiss()
    rmSync(directory, { recursive: true, force: true })
  }
  try {
    if (user) chownSync(directory, user.uid, user.gid)
    const place = { path, directory, port: await freePort(kind.secondPort), user }
    kind.prepare?.(place)
    let child = await launch(kind, place, watchdog)
    const running: RunningServer = {
      url: kind.url(place.port),
      port: place.port,
      get pid() {
        return child.pid ?? 0
      },
      directory,
      kill: (signal) => end(child, signal),
      async start() {
        if (isRunning(child)) throw new Error(`${kind.name} is already running`)
        child = await launch(kind, place, watchdog)
      },
      async restart(signal, { downForMs = 0 } = {}) {
        await running.kill(signal)
        await delay(downForMs)
        await running.start()
      },
      pause: () => void child.kill('SIGSTOP'),
      resume: () => void child.kill('SIGCONT'),
      async stop() {
        await end(child, kind.stopSignal)
        remove()
      },
    }
    return running
  } catch (error) {
    remove()
    throw error
  }
}

async function launch(kind: ServerKind, place: ServerLocation, watchdog: Watchdog): Promise<ChildProcess> {
  const child = spawn(place.path, kind.args(place), {
    cwd: place.directory,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...kind.env?.(place) },
    ...place.user,
  })
  let output = ''
  const keep = (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-4_000)
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  child.on('error', (error) => keep(Buffer.from(error.message)))
  watchdog.guard(child)

  const deadline = performance.now() + readyWithinMs
  while (isRunning(child) && performance.now() < deadline) {
    const ready = await kind.probe(place).then(
      () => true,
      () => false,
    )
    if (ready && isRunning(child)) return child
    await delay(20)
  }
  await end(child, 'SIGKILL')
  throw new Error(`${kind.name} was not ready in time on port ${place.port}:\n${output}`)
}
