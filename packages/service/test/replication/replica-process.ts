import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Socket } from 'node:net'
import { onTestFinished, vi } from 'vitest'
import { freePort } from '../../../../test/servers/free-port.ts'
import { startProxy, type Proxy } from '../../../../test/servers/proxy.ts'
import { ServiceProcess, type Answer } from '../disk/service-process.ts'

/** A line of a replica's log. */
export interface Line {
  readonly msg: string
  readonly term?: number
  readonly level: string
}

export const takesOver = 'this replica is taking over'
export const isActive = 'this replica is active'

/** Where a cluster keeps its data, and which build its replicas run. */
export interface ClusterOptions {
  /** The ports of etcd's members on this machine. */
  readonly members: readonly number[]
  readonly prefix?: string
  /** The path of another build of the service. */
  readonly entry?: string | undefined
  /** Default: 3. */
  readonly size?: number
}

/** A replica in a separate process, which reaches etcd and the other replicas through its own proxies. */
export class ReplicaProcess {
  readonly port: number
  readonly linkPort: number
  /** The proxies to each member of etcd. */
  readonly toEtcd: readonly Proxy[]
  /** The proxies to each of the other replicas. */
  readonly toOthers = new Map<ReplicaProcess, Proxy>()
  /** The log lines of all its processes, across restarts. */
  readonly log: Line[] = []
  readonly #options: ClusterOptions
  #process: ServiceProcess | undefined

  private constructor(port: number, linkPort: number, toEtcd: readonly Proxy[], options: ClusterOptions) {
    this.port = port
    this.linkPort = linkPort
    this.toEtcd = toEtcd
    this.#options = options
  }

  static async open(options: ClusterOptions): Promise<ReplicaProcess> {
    const proxies = await Promise.all(options.members.map((member) => startProxy(member)))
    onTestFinished(() => proxies.forEach((proxy) => proxy.stop()))
    return new ReplicaProcess(await freePort(), await freePort(), proxies, options)
  }

  /** Starts the replica. The other replicas must be known when this is called. */
  async start(): Promise<void> {
    const { prefix = 'tenure', entry } = this.#options
    const hosts = this.toEtcd.map(({ port }) => `127.0.0.1:${port}`)
    const detours = Object.fromEntries([...this.toOthers].map(([{ linkPort }, { port }]) => [linkPort, port]))
    this.#process = await ServiceProcess.start({
      directory: `etcd://${hosts.join()}/${encodeURIComponent(prefix)}`,
      port: this.port,
      advertise: `http://127.0.0.1:${this.linkPort}`,
      entry,
      environment: {
        NODE_OPTIONS: `--import=${pathToFileURL(join(import.meta.dirname, 'replica-faults.mjs')).href}`,
        TENURE_DETOURS: JSON.stringify(detours),
      },
      onLine: (line) => {
        // Node itself also writes to standard error.
        if (line.startsWith('{')) this.log.push(JSON.parse(line) as Line)
      },
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  get isRunning(): boolean {
    const { child } = this.#process ?? {}
    return child !== undefined && child.exitCode === null && child.signalCode === null
  }

  /** The highest term in which the replica was active. */
  get servedTerm(): number {
    return Math.max(0, ...this.log.map(({ msg, term }) => (msg === isActive ? (term ?? 0) : 0)))
  }

  /** Resolves to undefined if the outcome of the call is unknown. */
  async ask(...args: Parameters<ServiceProcess['ask']>): Promise<Answer | undefined> {
    return this.#process?.ask(...args)
  }

  /** Resolves once the replica has logged this message after line `after`. */
  async logged(msg: string, after = 0): Promise<Line> {
    const found = () => this.log.slice(after).find((line) => line.msg === msg)
    return vi.waitUntil(found, { timeout: 30_000, interval: 2 })
  }

  /** Resolves once the process is stopped. */
  async pause(): Promise<void> {
    const { child } = this.#process ?? {}
    child?.kill('SIGSTOP')
    const isStill = () => readFileSync(`/proc/${child?.pid}/stat`, 'utf8').includes(') T ')
    await vi.waitUntil(isStill, { timeout: 10_000, interval: 1 })
  }

  resume(): void {
    this.#process?.child.kill('SIGCONT')
  }

  /** Blocks the event loop of the process for this long, once it reads this command. */
  block(ms: number): void {
    const commands = this.#process?.child.stdio[3] as Socket | undefined
    commands?.write(String(ms))
  }

  async kill(): Promise<void> {
    await this.#process?.kill()
  }

  /** Stops the replica cleanly. */
  async stop(): Promise<void> {
    await this.#process?.stop()
  }
}

/** Opens replicas that know each other, and closes them when the test ends. Does not start them. */
export async function openReplicas(options: ClusterOptions): Promise<ReplicaProcess[]> {
  const replicas = await Promise.all(Array.from({ length: options.size ?? 3 }, () => ReplicaProcess.open(options)))
  for (const from of replicas) {
    for (const to of replicas) {
      if (to === from) continue
      const proxy = await startProxy(to.linkPort)
      onTestFinished(() => proxy.stop())
      from.toOthers.set(to, proxy)
    }
  }
  return replicas
}

/** The replica that was active in the highest term, as soon as there is one. */
export async function activeOf(replicas: readonly ReplicaProcess[], afterTerm = 0): Promise<ReplicaProcess> {
  const highest = () => replicas.toSorted((one, other) => other.servedTerm - one.servedTerm)[0]
  return vi.waitUntil(
    () => {
      const found = highest()
      return found && found.servedTerm > afterTerm ? found : undefined
    },
    { timeout: 30_000, interval: 2 },
  )
}
