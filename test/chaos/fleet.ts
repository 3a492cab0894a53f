import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { vi } from 'vitest'
import type { Entry, ProcessLog, Pause } from './check-logs.ts'
import { Guard } from './guard.ts'

/** The timings of the elector. */
interface Timings {
  readonly leaseDurationMs: number
  readonly renewIntervalMs?: number
  readonly renewDeadlineMs?: number
  readonly retryIntervalMs?: number
}

/** The deadline is as late as the rules allow, so that a belief that lasts 105 ms too long is detected. */
export const tightTimings = {
  leaseDurationMs: 1_500,
  renewIntervalMs: 400,
  renewDeadlineMs: 1_395,
  retryIntervalMs: 200,
}

/** The files in the directory after all processes have stopped. */
export const cleanDirectory = ['jobs.json', 'jobs.json.lock', 'jobs.json.term']

/** The store that a process uses. */
export type StoreLocation =
  | { readonly store: 'file'; readonly directory: string }
  /** The path of a kubeconfig. */
  | { readonly store: 'kubernetes'; readonly kubeConfig: string; readonly namespace: string }
  /** Any store that `openStore` can open. */
  | { readonly store: 'url'; readonly url: string }

/** The options of a candidate's process. */
export interface CandidateOptions {
  readonly identity: string
  readonly election: string
  readonly place: StoreLocation
  readonly guardPath: string
  readonly logPath: string
  readonly originNs: string
  readonly dawdleMs: number
  readonly timings: Timings
  /** Whether a guard process releases the lease as soon as the process has crashed. */
  readonly releaseOnCrash: boolean
  /** A folder with another build of the library. Default: the build of this repository. */
  readonly library?: string | undefined
}

/** Options of {@link Fleet.open}. */
export interface FleetOptions {
  readonly size: number
  readonly timings: Timings
  /** Default: `jobs`. */
  readonly election?: string
  /** Default: one directory for all. Files in the fleet's folder are removed with the fleet. */
  readonly place?: (identity: string, folder: string) => StoreLocation
  /** The longest time that a slow leader waits between its read and its write. */
  readonly dawdleMs?: number
  readonly library?: string | undefined
  readonly isFenced?: boolean
  /** How long a process may take to end after it was told to stop. */
  readonly exitWithinMs?: number
  /** Which processes have a guard that releases their lease as soon as they have crashed. Default: none. */
  readonly releaseOnCrash?: (identity: string) => boolean
  /** Returns additional environment variables for each process. */
  readonly env?: (identity: string) => Record<string, string>
}

/** A message that a process sends at once, in addition to its log. */
export interface Message {
  readonly event: string
  readonly term: number
  readonly at: number
}

interface Answer {
  readonly id: number
  readonly result?: unknown
  readonly error?: string
}

const patienceMs = 20_000

/** Processes that campaign in one election. */
export class Fleet {
  readonly folder: string
  /** The directory of the leases, if they are in files. */
  readonly directory: string
  readonly election: string
  readonly options: FleetOptions
  readonly guard: Guard
  readonly members: readonly Member[]
  readonly pauses: Pause[] = []
  readonly ended: Omit<ProcessLog, 'entries'>[] = []
  readonly originNs = process.hrtime.bigint()
  /** The most recently elected member, as known to the test. */
  leader: Member | undefined

  private constructor(folder: string, guard: Guard, options: FleetOptions) {
    this.folder = folder
    this.directory = join(folder, 'leases')
    this.guard = guard
    this.election = options.election ?? 'jobs'
    this.options = options
    this.members = Array.from({ length: options.size }, (_, index) => new Member(this, `candidate-${index + 1}`))
  }

  /** Opens a fleet without starting processes. */
  static async open(options: FleetOptions): Promise<Fleet> {
    const folder = await mkdtemp(join(tmpdir(), 'tenure-chaos-'))
    await mkdir(join(folder, 'logs'))
    return new Fleet(folder, await Guard.open(join(folder, 'guard.sock'), options), options)
  }

  /** Returns nanoseconds on the clock that the logs use. */
  now(): number {
    return Number(process.hrtime.bigint() - this.originNs)
  }

  /** Starts all processes before the first one campaigns. */
  async start(): Promise<void> {
    await Promise.all(this.members.map((member) => member.boot()))
    await Promise.all(this.members.map((member) => member.campaign()))
  }

  /** Waits until a running member leads in a term above this one. */
  async nextLeader(aboveTerm: number, withinMs = patienceMs): Promise<Member & { readonly term: number }> {
    const found = await vi.waitUntil(() => this.leader && (this.leader.term ?? 0) > aboveTerm && this.leader, {
      timeout: withinMs,
      interval: 2,
    })
    return found as Member & { readonly term: number }
  }

  /** Returns how long it takes from now until a member leads. */
  async ledAgainMs(): Promise<number> {
    const now = this.now()
    const leads = ({ event, at }: Message) => (event === 'elected' || event === 'renewed') && at > now
    const first = () => this.members.flatMap(({ messages }) => messages.filter(leads))[0]
    const { at } = await vi.waitUntil(first, { timeout: patienceMs, interval: 5 })
    return (at - now) / 1e6
  }

  /** Stops all processes gracefully. They must end on their own. */
  async stop(): Promise<void> {
    await Promise.all(this.members.map((member) => member.stop()))
  }

  /** Returns the logs of every process that has ended. */
  async lives(): Promise<ProcessLog[]> {
    return Promise.all(this.ended.map(async (life) => ({ ...life, entries: await this.#entriesOf(life.pid) })))
  }

  logPath(identity: string, start: number): string {
    return join(this.folder, 'logs', `${identity}.${start}`)
  }

  /** Returns the file names in the directory of the leases. */
  async list(): Promise<string[]> {
    return (await readdir(this.directory)).sort()
  }

  /** Deletes the leader's liveness socket, as a cleanup program might. */
  async loseSocket(): Promise<void> {
    for (const name of await this.list()) {
      if (name.endsWith('.sock')) await unlink(join(this.directory, name)).catch(() => {})
    }
  }

  /** Kills all processes that are still running. */
  async close({ keepFolder = false } = {}): Promise<void> {
    await Promise.all(this.members.map((member) => member.kill()))
    this.guard.close()
    if (!keepFolder) await rm(this.folder, { recursive: true, force: true })
  }

  readonly #logs = new Map<number, string>()

  keepLog(pid: number, path: string): void {
    this.#logs.set(pid, path)
  }

  async #entriesOf(pid: number): Promise<Entry[]> {
    const text = await readFile(this.#logs.get(pid) ?? '', 'utf8')
    // A process that was killed while writing may leave a partial line.
    const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n')
    return lines.filter(Boolean).map((line) => JSON.parse(line) as Entry)
  }
}

/** A slot in the fleet: one process at a time, always with the same identity. */
export class Member {
  readonly identity: string
  /** Whether a fault is currently using this member. */
  isBusy = false
  /** The term that the member leads, as known to the test. */
  term: number | undefined
  readonly messages: Message[] = []
  readonly #fleet: Fleet
  #process: ChildProcess | undefined
  #ended: Promise<unknown> = Promise.resolve()
  #wanted: 'killed' | 'stopped' | undefined
  #starts = 0
  #commands = 0
  readonly #answers = new Map<number, (answer: Answer) => void>()

  constructor(fleet: Fleet, identity: string) {
    this.#fleet = fleet
    this.identity = identity
  }

  async start(): Promise<void> {
    await this.boot()
    await this.campaign()
  }

  async campaign(): Promise<void> {
    await this.tell('campaign', undefined)
  }

  /** Starts its process, which then waits for the command to campaign. */
  async boot(): Promise<void> {
    const { options, election, directory, folder } = this.#fleet
    const logPath = this.#fleet.logPath(this.identity, ++this.#starts)
    const candidate: CandidateOptions = {
      identity: this.identity,
      election,
      place: options.place?.(this.identity, folder) ?? { store: 'file', directory },
      logPath,
      guardPath: join(folder, 'guard.sock'),
      originNs: String(this.#fleet.originNs),
      dawdleMs: options.dawdleMs ?? 5,
      timings: options.timings,
      releaseOnCrash: options.releaseOnCrash?.(this.identity) ?? false,
      library: options.library,
    }
    const child = fork(fileURLToPath(new URL('./candidate.mjs', import.meta.url)), [JSON.stringify(candidate)], {
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
      execArgv: [],
      env: { ...process.env, ...options.env?.(this.identity) },
    })
    this.#process = child
    this.#wanted = undefined
    this.#fleet.keepLog(child.pid ?? 0, logPath)
    let complaints = ''
    child.stderr?.on('data', (text) => (complaints += text))
    child.on('message', (message: Message | Answer) => {
      if ('event' in message) this.#note(message)
      else this.#answers.get(message.id)?.(message)
    })
    this.#ended = once(child, 'close').then(([code, signal]) => {
      const asWanted = this.#wanted === 'killed' ? signal === 'SIGKILL' : this.#wanted === 'stopped' && code === 0
      const end = asWanted && this.#wanted && !complaints ? this.#wanted : `${signal ?? code} ${complaints}`
      this.#fleet.ended.push({ identity: this.identity, pid: child.pid ?? 0, end })
      this.#process = undefined
      this.#note({ event: 'ended', term: 0, at: this.#fleet.now() })
    })
    await this.until('ready')
  }

  get isRunning(): boolean {
    return this.#process !== undefined
  }

  /** Waits for an event that the member reports from now on. */
  async until(event: string, times = 1): Promise<Message> {
    const known = this.messages.length
    const found = () => this.messages.slice(known).filter((message) => message.event === event)
    await vi.waitUntil(() => found().length >= times || !this.#process, { timeout: patienceMs, interval: 2 })
    const message = found()[times - 1]
    if (!message) throw new Error(`${this.identity} ended before it reported "${event}"`)
    return message
  }

  async kill(): Promise<void> {
    if (!this.#process) return
    this.#wanted = 'killed'
    this.#process.kill('SIGKILL')
    await this.#ended
  }

  /** Resolves when it has seen a leader. */
  async standsBy(): Promise<void> {
    const begun = this.messages.findLastIndex(({ event }) => event === 'ready')
    if (this.messages.slice(begun).every(({ event }) => event !== 'new-leader')) await this.until('new-leader')
  }

  /** Tells the process to stop. It must then end on its own. */
  async stop(): Promise<void> {
    const child = this.#process
    if (!child) return
    this.#wanted = 'stopped'
    child.kill('SIGTERM')
    const late = delay(this.#fleet.options.exitWithinMs ?? patienceMs, 'late', { ref: false })
    if ((await Promise.race([this.#ended, late])) !== 'late') return
    this.#wanted = undefined
    child.kill('SIGKILL')
    await this.#ended
  }

  /**
   * Sends SIGSTOP. Sends SIGCONT after a time, or when a promise resolves, unless the process was killed in the
   * meantime.
   */
  async pause(until: number | Promise<unknown>): Promise<void> {
    const child = this.#process
    if (!child) return
    const { term } = this
    const from = this.#fleet.now()
    child.kill('SIGSTOP')
    await (typeof until === 'number' ? delay(until) : until)
    this.#fleet.pauses.push({ pid: child.pid ?? 0, from, to: this.#fleet.now(), term })
    child.kill('SIGCONT')
  }

  /** Sends a command and returns its answer, or undefined if the process ended first. */
  async tell<T>(command: string, value: unknown): Promise<T | undefined> {
    const child = this.#process
    const id = ++this.#commands
    if (!child?.connected) return undefined
    const answer = new Promise<Answer>((resolve) => this.#answers.set(id, resolve))
    child.send({ id, command, value })
    const { result, error } = await Promise.race([answer, this.#ended.then((): Answer => ({ id }))])
    this.#answers.delete(id)
    if (error) throw new Error(error)
    return result as T | undefined
  }

  #note(message: Message): void {
    this.messages.push(message)
    if (message.event === 'elected') {
      this.term = message.term
      this.#fleet.leader = this
    } else if (message.event === 'lost' || message.event === 'ended') {
      this.term = undefined
    }
  }
}
