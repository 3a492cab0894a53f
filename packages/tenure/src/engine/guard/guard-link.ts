import type { ChildProcess } from 'node:child_process'
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import { processEntry, processNamespace } from '@tenure/internal/process-status'
import { systemClock } from '../../common/clock.ts'
import type { GuardedAttempt } from './guard.ts'
import { encodeMessage, type GuardMessage } from './messages.ts'

/** How long an acquire waits for its registration before it is sent unguarded. */
const longestArmingMs = 50

/**
 * The maximum number of bytes that may wait for a guard to read them. Ten thousand electors register with about 3 MB.
 */
const mostUnreadBytes = 16 * 2 ** 20

/** Node options for the guard process, which handles only a few short strings. */
const smallHeap = ['--max-old-space-size=64', '--max-semi-space-size=1']

/** The PID namespace of the machine itself. Its PID 1 ends with the machine. */
const rootNamespace = 'pid:[4026531836]'

const containerAdvice =
  'releaseOnCrash: this process or its parent is PID 1 of its container. When PID 1 ends, the kernel also ends the guard, and the lease is left to expire. Run the program with "tenure run", or run "tenure guard" in another container of the pod and set TENURE_GUARD.'

/**
 * Whether a guard that this process starts would end together with it. A small init as PID 1 ends together with its
 * only child.
 */
export function endsWithContainer(
  { pid, ppid }: { readonly pid: number; readonly ppid: number },
  namespace: string | undefined,
): boolean {
  return (pid === 1 || ppid === 1) && namespace !== rootNamespace
}

/**
 * This process's end of the pipe to its guard. All electors of the process share one.
 *
 * Armed means *written to the pipe*, not answered: bytes in the kernel's buffer outlive this process. So nothing waits
 * for the guard to start. This end is never closed while an attempt is registered, because the guard treats the end of
 * the pipe as a crash.
 */
export class GuardLink {
  static #shared: GuardLink | undefined

  /** The link of this process. */
  static get shared(): GuardLink {
    return (this.#shared ??= new GuardLink())
  }

  readonly #registered = new Map<string, GuardedAttempt>()
  /** Opens the pipe to a guard. Undefined selects the default: the guard of TENURE_GUARD, or a new process. */
  openPipe: (() => Socket) | undefined
  #pipe: Socket | undefined
  #startedAtMs = -Infinity
  #opensStores = true
  #users = 0
  #hasWarned = false
  #error: Error | undefined

  /** Why attempts are not guarded now. Undefined if they are. */
  get problem(): string | undefined {
    if (this.#error) return this.#error.message
    if (!this.#pipe) return 'the guard is not running'
    return this.#pipe.writableLength > 0 ? 'the guard is not reading its pipe' : undefined
  }

  /** Registers an attempt before its acquire is sent. Returns a promise if that takes longer than a write. */
  register(attempt: GuardedAttempt): Promise<void> | undefined {
    this.#registered.set(attempt.attempt, attempt)
    if (!this.#pipe) this.#start(attempt.leaseDurationMs)
    else this.#writeAttempt(attempt)
    return this.#written()
  }

  /** Registers the id of a renewal before it is sent. Returns a promise if that takes longer than a write. */
  sending(attempt: string, writeId: string): Promise<void> | undefined {
    const known = this.#registered.get(attempt)
    if (!known) return undefined
    this.#registered.set(attempt, { ...known, writeIds: [...known.writeIds.slice(-63), writeId] })
    if (!this.#pipe) this.#start(known.leaseDurationMs)
    else this.#write({ type: 'sending', attempt, writeId })
    return this.#written()
  }

  /** Removes an attempt that holds nothing. */
  unregister(attempt: string): void {
    if (!this.#registered.delete(attempt)) return
    this.#write({ type: 'unregister', attempt })
    this.#endIfUnused()
  }

  /** Called when an elector that uses the guard starts. Returns advice for the log, once. */
  join(): string | undefined {
    this.#users++
    const isElsewhere = this.openPipe !== undefined || process.env['TENURE_GUARD'] !== undefined
    if (this.#hasWarned || isElsewhere || !endsWithContainer(process, processNamespace())) return undefined
    this.#hasWarned = true
    return containerAdvice
  }

  /** Called when such an elector has stopped. */
  leave(): void {
    this.#users--
    this.#endIfUnused()
  }

  /** Ends the guard after the last elector, unless an attempt of unknown outcome is left. */
  #endIfUnused(): void {
    if (this.#users > 0 || this.#registered.size > 0) return
    const pipe = this.#pipe
    this.#pipe = undefined
    this.#startedAtMs = -Infinity
    // Closes the pipe after everything that was written. A guard without attempts exits at the end of its pipe.
    pipe?.end()
  }

  /** Starts a guard and registers everything with it. A guard that dies is replaced at most once per lease. */
  #start(leaseDurationMs: number): void {
    const nowMs = systemClock.monotonicMs()
    if (nowMs < this.#startedAtMs + leaseDurationMs) return
    this.#startedAtMs = nowMs
    const first = introduction()
    if (first === undefined) {
      this.#error = new Error('this process cannot read its own entry in /proc')
      return
    }
    try {
      const socket = process.env['TENURE_GUARD']
      this.#opensStores = this.openPipe !== undefined || !socket
      this.#open(this.openPipe?.() ?? (socket ? connect(socket) : spawnGuard()))
    } catch (error) {
      this.#error = error as Error
      return
    }
    this.#pipe?.write(first)
    for (const attempt of this.#registered.values()) this.#writeAttempt(attempt)
  }

  #open(pipe: Socket): void {
    this.#pipe = pipe
    this.#error = undefined
    // The guard must not keep this process alive. Only the process's own work may.
    pipe.unref()
    // An error on the pipe must end neither this process nor its leadership.
    pipe.on('error', (error) => {
      if (this.#pipe === pipe) this.#error = error
    })
    pipe.on('close', () => {
      if (this.#pipe === pipe) this.#pipe = undefined
    })
    // The guard sends nothing. Reading serves only to notice the end of a connection.
    if (pipe.readable) pipe.resume()
  }

  /** A guard that serves several processes uses its own store, and gets no URL, which may contain a password. */
  #writeAttempt(attempt: GuardedAttempt): void {
    this.#write({ type: 'register', attempt: this.#opensStores ? attempt : { ...attempt, storeUrl: '' } })
  }

  #write(message: GuardMessage): void {
    const pipe = this.#pipe
    if (!pipe?.writable) return
    pipe.write(encodeMessage(message))
    // A guard that has stopped reading is useless. Its successor gets everything that is registered.
    if (pipe.writableLength > mostUnreadBytes) pipe.destroy(new Error('the guard is not reading its pipe'))
  }

  /** Node writes to a pipe immediately if its buffer has room. Otherwise this waits, but only for a short time. */
  #written(): Promise<void> | undefined {
    const pipe = this.#pipe
    if (!pipe?.writable || pipe.writableLength === 0) return undefined
    return new Promise((resolve) => {
      const timer = systemClock.setTimer(longestArmingMs, resolve)
      pipe.write('', () => (timer.cancel(), resolve()))
    })
  }
}

/** The first message to a guard. Undefined if this process cannot see itself. */
export function introduction(): string | undefined {
  const entry = processEntry(process.pid)
  const namespace = processNamespace()
  if (!entry || entry === 'unknown' || namespace === undefined) return undefined
  return encodeMessage({ type: 'process', id: process.pid, startedAt: entry.startedAt, namespace })
}

function spawnGuard(): Socket {
  const { spawn } = process.getBuiltinModule('node:child_process')
  const program = createRequire(import.meta.url).resolve('tenure/internal/guard')
  const { NODE_OPTIONS: _, ...env } = process.env
  const child: ChildProcess = spawn(process.execPath, [...smallHeap, program], {
    // The guard has its own session, so that a signal to this process group does not reach it. Its working directory is
    // one that nobody wants to unmount. It does not inherit the output, because a program that reads this process's
    // output would then wait for the guard.
    detached: true,
    cwd: '/',
    stdio: ['pipe', 'ignore', 'ignore'],
    env,
  })
  child.unref()
  const pipe = child.stdin as Socket | undefined
  child.on('error', (error) => pipe?.destroy(error))
  child.on('exit', () => pipe?.destroy(new Error('the guard process has ended')))
  // Without a free file descriptor there is no pipe, and the error comes as an event.
  if (!pipe) throw new Error('the guard could not be started: too many files are open')
  return pipe
}

/** Accepts the path of a socket, and also `unix:PATH`, as `tenure guard --listen` does. */
function connect(address: string): Socket {
  return process.getBuiltinModule('node:net').connect({ path: address.replace(/^unix:/, '') })
}
