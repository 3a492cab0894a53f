import { spawn, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { nowMs, type Belief } from '../kubernetes/beliefs.ts'
import { pathOf } from './find-program.ts'
import { end } from './process.ts'
import { programs } from './programs.ts'
import { startWatchdog } from './watchdog.ts'

/** Options of a manager. */
export interface GoManagerOptions {
  readonly kubeConfig: string
  readonly lease: string
  readonly identity: string
  readonly timings: {
    readonly leaseDurationMs: number
    readonly renewDeadlineMs: number
    readonly retryPeriodMs: number
  }
}

/** A slot for one manager process at a time, which leads with the Go lock. */
export class GoManager {
  /** Whether a fault is currently using this manager. */
  isBusy = false
  readonly options: GoManagerOptions
  /** The periods during which `Held()` of the lock was true, over all processes of this slot. */
  readonly beliefs: Belief[] = []
  /** The periods during which client-go ran the work, each from its start to its stop. */
  readonly work: Belief[] = []
  /** The last 20,000 characters of its log. */
  log = ''
  #child: ChildProcess | undefined

  constructor(options: GoManagerOptions) {
    this.options = options
  }

  get identity(): string {
    return this.options.identity
  }

  /** The term that the manager holds according to its last report, or undefined. */
  get term(): number | undefined {
    const last = this.beliefs.at(-1)
    return last?.toMs === Infinity ? last.term : undefined
  }

  start(): void {
    const { kubeConfig, lease, identity, timings } = this.options
    const args = Object.entries({
      'kube-config': kubeConfig,
      lease,
      identity,
      'lease-duration': `${timings.leaseDurationMs}ms`,
      'renew-deadline': `${timings.renewDeadlineMs}ms`,
      'retry-period': `${timings.retryPeriodMs}ms`,
    }).map(([name, value]) => `--${name}=${value}`)
    const child = spawn(pathOf(programs.goManager), args, { stdio: ['pipe', 'pipe', 'pipe'] })
    this.#child = child
    const watchdog = startWatchdog('SIGKILL')
    watchdog.guard(child)
    child.stdin.on('error', () => {})
    child.stderr.on('data', (chunk: Buffer) => {
      this.log = (this.log + chunk.toString()).slice(-20_000)
    })
    const lines = createInterface(child.stdout)
    lines.on('line', (line) => this.#take(JSON.parse(line)))
    child.once('exit', () => {
      watchdog.dismiss()
      const toMs = nowMs()
      // A process that has ended believes nothing, no matter what it reported last.
      for (const belief of [this.beliefs.at(-1), this.work.at(-1)]) if (belief?.toMs === Infinity) belief.toMs = toMs
    })
  }

  /** Releases the lease if the manager holds it. */
  release(): void {
    this.#child?.stdin?.write('release\n')
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    if (this.#child) await end(this.#child, signal)
  }

  pause(): void {
    this.#child?.kill('SIGSTOP')
  }

  resume(): void {
    this.#child?.kill('SIGCONT')
  }

  #take({ event, term, monotonic_ms: atMs }: { event: string; term: number; monotonic_ms: number }): void {
    const list = event === 'held' || event === 'lost' ? this.beliefs : this.work
    const last = list.at(-1)
    if (event === 'held' || event === 'started') {
      list.push({ identity: this.identity, term, fromMs: atMs, toMs: Infinity })
    } else if (last?.toMs === Infinity) last.toMs = atMs
  }
}
