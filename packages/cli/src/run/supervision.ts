import type { Server, Socket } from 'node:net'
import { GuardLink } from 'tenure/internal'
import { CommandRun, type CommandSpec } from './command-run.ts'
import type { Deadlines } from './protocol.ts'
import { SupervisorProcess } from './supervisor-process.ts'
import { listen, remove, serve } from '@tenure/internal/liveness-socket'

/**
 * The wrapper's side of the supervision. It keeps a supervisor alive, shares with it the state that must outlive either
 * process, and starts runs.
 */
export class Supervision {
  readonly #election: string
  readonly #tell: (text: string) => void
  readonly #signs = new Map<string, Server>()
  #supervisor: SupervisorProcess | undefined
  #shared: Promise<void> | undefined
  #folder: string | undefined
  #guarded: { readonly storeUrl: string; readonly environment: NodeJS.ProcessEnv } | undefined
  #started = 0
  /** The runs that have not ended. */
  readonly #runs = new Set<CommandRun>()
  /** Settles when the previous start was answered. */
  #turn: Promise<void> = Promise.resolve()
  #isClosed = false

  constructor(options: { election: string; tell(text: string): void }) {
    this.#election = options.election
    this.#tell = options.tell
  }

  /** Returns a supervisor that answers and holds all liveness sockets. Starts a new one if the last one has died. */
  async ready(): Promise<SupervisorProcess> {
    // 6: a new supervisor starts only after all commands of the previous one have ended.
    while (!this.#isClosed && !this.#supervisor?.isAlive && this.#runs.size > 0) {
      await Promise.all([...this.#runs].map((run) => run.ended))
    }
    if (this.#isClosed) throw new Error('The supervision has ended.')
    let supervisor = this.#supervisor
    if (!supervisor?.isAlive) {
      supervisor = new SupervisorProcess(this.#election)
      this.#supervisor = supervisor
      this.#shared = this.#share(supervisor)
    }
    await this.#shared
    return supervisor
  }

  async #share(supervisor: SupervisorProcess): Promise<void> {
    await supervisor.ready
    if (this.#folder !== undefined) supervisor.send({ type: 'keep', folder: this.#folder })
    this.#sendGuard(supervisor)
    for (const [sign, server] of this.#signs) await supervisor.hold(sign, server)
  }

  /** Registers a folder that is removed with this process, no matter how it ends. */
  keep(folder: string): void {
    this.#folder = folder
    this.#supervisor?.send({ type: 'keep', folder })
  }

  /**
   * The URL by which the supervisor opens the store to release the lease. Undefined if the supervisor does not release
   * it.
   */
  get guardedUrl(): string | undefined {
    return this.#guarded?.storeUrl
  }

  /** Lets every supervisor guard this process. `environment`: the variables by which the store was opened. */
  guard(storeUrl: string, environment: NodeJS.ProcessEnv): void {
    this.#guarded = { storeUrl, environment }
    GuardLink.shared.openPipe = () => this.#guardPipe()
    if (this.#supervisor) this.#sendGuard(this.#supervisor)
  }

  #sendGuard(supervisor: SupervisorProcess): void {
    if (this.#guarded) supervisor.send({ type: 'guard', environment: this.#guarded.environment })
  }

  #guardPipe(): Socket {
    const pipe = this.#supervisor?.isAlive ? this.#supervisor.guardPipe : undefined
    // The next renewal tries again.
    if (!pipe?.writable) throw new Error('the supervisor is not running')
    return pipe
  }

  /** Opens a liveness socket that refuses connections only when both processes have ended. */
  async openLivenessSocket(sign: string, path: string): Promise<{ path: string; close(): Promise<void> }> {
    const supervisor = await this.ready()
    const server = await listen(path)
    const close = serve(server)
    this.#signs.set(sign, server)
    const end = async () => {
      if (!(await remove(path))) return
      this.#signs.delete(sign)
      this.#supervisor?.send({ type: 'drop', socketId: sign })
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

  /**
   * Starts a command, one at a time: the supervisor can do nothing else while it starts a command, and it must answer in
   * time. `deadlinesOf` is called right before the order. Returns undefined if that returns undefined.
   */
  async start(
    work: CommandSpec,
    deadlinesOf: () => Deadlines | undefined,
    graceMs: number,
  ): Promise<CommandRun | undefined> {
    const turn = this.#turn
    let next = (): void => {}
    this.#turn = new Promise((resolve) => (next = resolve))
    await turn
    try {
      const supervisor = await this.ready()
      const deadlines = deadlinesOf()
      if (!deadlines) return undefined
      const run = new CommandRun(supervisor, (this.#started += 1), work, deadlines, graceMs, this.#tell)
      this.#runs.add(run)
      void run.ended.then(() => this.#runs.delete(run))
      const answered = next
      next = () => {}
      void run.answered.then(answered)
      return run
    } finally {
      next()
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#supervisor?.close()
  }
}
