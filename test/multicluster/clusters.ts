/** Clusters with one API server each, controllers as processes, and an etcd that all of them share. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { kubeConfigOf } from '../kubernetes/kube-config.ts'
import { startCluster, type Cluster } from '../servers/cluster.ts'
import { etcd } from '../servers/etcd.ts'
import { installCrd } from '../servers/multicluster-crd.ts'
import { startProxy, type Proxy } from '../servers/proxy.ts'
import { start, type RunningServer } from '../servers/server.ts'
import { startWatchdog } from '../servers/watchdog.ts'

const program = join(import.meta.dirname, '../../packages/cli/bin/tenure.js')

/** One of the clusters. */
export interface Member {
  readonly name: string
  readonly api: Cluster
  /** The proxy between its candidates and its API server. */
  readonly network: Proxy
  /** The proxy between its controllers and the global store. */
  readonly backbone: Proxy
  /** Connects to the API server. For a candidate, through the proxy. */
  readonly kubeConfig: { readonly candidate: string; readonly controller: string }
  readonly controllers: readonly Controller[]
}

/** The clusters, and the resources that they share. */
export interface Clusters {
  readonly members: readonly Member[]
  readonly global: RunningServer
  of(name: string): Member
  stop(): Promise<void>
}

/** The options of a test. */
export interface ClustersOptions {
  readonly names: readonly string[]
  /** The number of controllers in each cluster. Default: 1. */
  readonly controllers?: number
  /** Returns the URL of the global store at this port. Default: the etcd that is started for it. */
  readonly storeAt?: (port: number) => string
  readonly env?: (controller: { readonly cluster: string; readonly index: number }) => Record<string, string>
  /** Returns additional flags of each API server. */
  readonly flags?: (cluster: string) => readonly string[]
  /** Called with each line of progress. */
  readonly onProgress?: (line: string) => void
}

/** Starts everything, including the controllers. */
export async function startClusters(options: ClustersOptions): Promise<Clusters> {
  const storeAt = options.storeAt ?? ((port: number) => `etcd://127.0.0.1:${port}`)
  const { flags = () => [], onProgress = () => {} } = options
  const [global, ...apis] = await Promise.all([
    start(etcd),
    ...options.names.map(async (name) => {
      onProgress(`cluster ${name}: starting etcd and kube-apiserver ...`)
      const api = await startCluster({ flags: flags(name) })
      onProgress(`cluster ${name}: the API server is ready`)
      return api
    }),
  ])
  const members = await Promise.all(
    options.names.map(async (name, index): Promise<Member> => {
      const api = apis[index] as Cluster
      await installCrd(api)
      const [network, backbone] = await Promise.all([startProxy(api.port), startProxy(global.port)])
      const kubeConfig = {
        candidate: writtenTo(join(api.directory, 'candidate.kubeconfig'), kubeConfigOf(api, { port: network.port })),
        controller: writtenTo(join(api.directory, 'controller.kubeconfig'), kubeConfigOf(api)),
      }
      const controllers = Array.from({ length: options.controllers ?? 1 }, (_, position) => {
        const env = options.env?.({ cluster: name, index: position }) ?? {}
        return new Controller(name, storeAt(backbone.port), { ...env, KUBECONFIG: kubeConfig.controller })
      })
      await Promise.all(controllers.map((controller) => controller.start()))
      onProgress(`cluster ${name}: the MultiClusterLease CRD is installed, ${controllers.length} controllers run`)
      return { name, api, network, backbone, kubeConfig, controllers }
    }),
  )
  return {
    members,
    global,
    of: (name) => members.find((member) => member.name === name) as Member,
    async stop() {
      await Promise.all(members.flatMap(({ controllers }) => controllers.map((one) => one.kill())))
      for (const { network, backbone } of members) for (const proxy of [network, backbone]) proxy.stop()
      await Promise.all([global.stop(), ...apis.map((api) => api.stop())])
    },
  }
}

function writtenTo(path: string, text: string): string {
  writeFileSync(path, text)
  return path
}

/** A slot for one controller process at a time. */
export class Controller {
  /** Whether a fault is currently using this controller. */
  isBusy = false
  readonly term = undefined
  readonly cluster: string
  /** The URL of the controller while it runs. */
  url = ''
  /** Its log output since its first start. */
  log = ''
  readonly #store: string
  readonly #env: Record<string, string>
  #process: ChildProcess | undefined

  constructor(cluster: string, store: string, env: Record<string, string>) {
    this.cluster = cluster
    this.#store = store
    this.#env = env
  }

  /** Resolves when it serves requests. */
  async start(): Promise<void> {
    const args = ['controller', '--cluster', this.cluster, '--store', this.#store, '--listen', '127.0.0.1:0', '--json']
    const env = { ...process.env, ...this.#env }
    const child = spawn(process.execPath, [program, ...args], { env, stdio: ['ignore', 'ignore', 'pipe'] })
    this.#process = child
    const watchdog = startWatchdog('SIGKILL')
    watchdog.guard(child)
    child.once('exit', () => watchdog.dismiss())
    await new Promise<void>((resolve, reject) => {
      child.once('exit', (code, signal) => reject(new Error(`the controller ended (${signal ?? code}): ${this.log}`)))
      child.stderr.on('data', (text: Buffer) => {
        this.log += String(text)
        const url = /"url":"([^"]+)"/.exec(this.log.slice(this.log.lastIndexOf('"url"')))?.[1]
        if (url === undefined || url === this.url) return
        this.url = url
        resolve()
      })
    })
  }

  get pid(): number {
    return this.#process?.pid ?? 0
  }

  kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<unknown> {
    const child = this.#process
    if (!child || child.exitCode !== null || child.signalCode !== null) return Promise.resolve()
    const ended = once(child, 'exit')
    child.kill(signal)
    return ended
  }

  pause(): void {
    this.#process?.kill('SIGSTOP')
  }

  resume(): void {
    this.#process?.kill('SIGCONT')
  }

  /** Returns whether this controller is the primary controller of its cluster. */
  async isFirst(): Promise<boolean> {
    return /^tenure_controller_first\{.*\} 1$/m.test(await this.metrics())
  }

  async metrics(): Promise<string> {
    return (await fetch(`${this.url}/metrics`)).text()
  }
}
