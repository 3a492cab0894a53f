import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Program } from './find.ts'

/** A user that a server runs as. */
export interface User {
  readonly uid: number
  readonly gid: number
}

/** Where one server of a test lives. */
export interface Place {
  /** The program's path. */
  readonly path: string
  /** Fresh and empty. */
  readonly directory: string
  readonly port: number
  readonly user: User | undefined
}

/** Everything that differs from one server to another. */
export interface ServerKind {
  readonly name: string
  readonly program: Program
  /** Whom to run as where it must not be root. */
  user?(): User | undefined
  /** Runs once, before the first start. */
  prepare?(place: Place): void
  args(place: Place): string[]
  /** Resolves when the server answers, rejects while it does not. */
  probe(port: number): Promise<unknown>
  url(port: number): string
  /** The signal that ends it at once. Its data is thrown away anyhow. */
  readonly stopSignal: NodeJS.Signals
}

/** A server that a test started. */
export interface RunningServer {
  readonly url: string
  readonly port: number
  readonly pid: number
  /** Ends the process with this signal and starts it again, with the same port and data. */
  restart(signal: NodeJS.Signals): Promise<void>
  /** Ends the process by its id and deletes its data. */
  stop(): Promise<void>
}

const readyWithinMs = 30_000
const stoppedWithinMs = 5_000

/** Starts a server on a free loopback port with a fresh data directory, and waits until it answers. */
export async function start(kind: ServerKind, path: string): Promise<RunningServer> {
  const user = kind.user?.()
  const directory = mkdtempSync(join(tmpdir(), `tenure-${kind.program.binary}-`))
  const remove = () => rmSync(directory, { recursive: true, force: true })
  try {
    if (user) chownSync(directory, user.uid, user.gid)
    const place = { path, directory, port: await freePort(), user }
    kind.prepare?.(place)
    let child = await launch(kind, place)
    return {
      url: kind.url(place.port),
      port: place.port,
      get pid() {
        return child.pid ?? 0
      },
      async restart(signal) {
        await end(child, signal)
        child = await launch(kind, place)
      },
      async stop() {
        await end(child, kind.stopSignal)
        remove()
      },
    }
  } catch (error) {
    remove()
    throw error
  }
}

async function launch(kind: ServerKind, place: Place): Promise<ChildProcess> {
  const child = spawn(place.path, kind.args(place), {
    cwd: place.directory,
    stdio: ['ignore', 'pipe', 'pipe'],
    ...place.user,
  })
  let output = ''
  const keep = (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-4_000)
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  child.on('error', (error) => keep(Buffer.from(error.message)))
  if (child.pid !== undefined) endWithTests(child, kind, place)

  const deadline = performance.now() + readyWithinMs
  while (isRunning(child) && performance.now() < deadline) {
    const ready = await kind.probe(place.port).then(
      () => true,
      () => false,
    )
    if (ready && isRunning(child)) return child
    await delay(20)
  }
  await end(child, 'SIGKILL')
  throw new Error(`${kind.name} did not get ready on port ${place.port}:\n${output}`)
}

/**
 * A test run that is killed cannot end its servers. This shell can: its input closes with the process that started it,
 * however that ended.
 */
function endWithTests(child: ChildProcess, kind: ServerKind, place: Place): void {
  const script = 'read _; kill -s "$1" "$2"; sleep 1; rm -rf "$3"'
  const args = ['-c', script, 'sh', kind.stopSignal.replace('SIG', ''), String(child.pid), place.directory]
  const watchdog = spawn('sh', args, { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
  child.once('exit', () => {
    watchdog.kill('SIGKILL')
    watchdog.stdin.destroy()
  })
}

function isRunning(child: ChildProcess): boolean {
  return child.pid !== undefined && child.exitCode === null && child.signalCode === null
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (!isRunning(child)) return
  const exited = once(child, 'exit')
  child.kill(signal)
  const insist = setTimeout(() => child.kill('SIGKILL'), stoppedWithinMs)
  await exited
  clearTimeout(insist)
}

/** A loopback port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
