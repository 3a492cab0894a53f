/** Two clusters whose candidates are processes. Injects faults into the leader and measures the failover. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { inMs, machineMs } from '../../packages/cli/src/commands/demo/fleet.ts'
import type { Clusters, Controller, Member } from '../../test/multicluster/clusters.ts'

export const leaseDurationMs = 3_000
const absenceMs = 1.5 * leaseDurationMs
const restartMs = 1_500
/** If no controller had answered, the leader would have lost its lease by then. */
const keptMs = 2 * leaseDurationMs
const resource = '/apis/tenure.dev/v1alpha1/namespaces/default/multiclusterleases/demo'

/** The faults that can hit the leader, each with its description in the past tense. */
export const harms = {
  stop: 'stopped',
  kill: 'killed',
  controller: 'killed the controller of',
  cut: 'cut off the cluster of',
} as const

export type Harm = keyof typeof harms

/** A report from a candidate. */
export type News =
  | { readonly type: 'elected'; readonly term: number }
  | { readonly type: 'lost'; readonly term: number; readonly reason: string }
  | { readonly type: 'status'; readonly term: number; readonly leaseEndsInMs: number; readonly isWaiting: boolean }

/** `atMs` is on the clock that all processes on this machine share. */
type Report = News & { readonly atMs: number }

export interface Candidate {
  /** The same identity in the other cluster belongs to another pod. */
  readonly identity: string
  readonly cluster: Member
  child: ChildProcess | undefined
  condition: 'runs' | 'stopping' | 'gone'
  /** The term in which the candidate says it leads, or 0. */
  leads: number
  status: Extract<Report, { type: 'status' }> | undefined
}

/** The state that a cluster's resource shows. */
export interface Shown {
  readonly leader: string
  readonly cluster: string
  readonly term: number
}

export class Scene {
  readonly candidates: readonly Candidate[]
  readonly clusters: readonly Member[]
  /** The status of the resource of each cluster, by cluster name. */
  readonly shown = new Map<string, Shown>()
  readonly cutOff = new Set<Member>()
  readonly results: { readonly harm: Harm; readonly tookMs: number | undefined }[] = []
  highestTerm = 0
  readonly #log: (text: string) => void
  readonly #onSettled: () => void
  #pending: { readonly harm: Harm; readonly name: string; readonly term: number; readonly atMs: number } | undefined
  readonly #timers = new Set<NodeJS.Timeout>()
  #ended = false

  constructor(clusters: Clusters, log: (text: string) => void, onSettled: () => void) {
    this.clusters = clusters.members
    this.#log = log
    this.#onSettled = onSettled
    this.candidates = clusters.members.flatMap((cluster) =>
      ['web-0', 'web-1'].map((identity): Candidate => ({
        identity,
        cluster,
        child: undefined,
        condition: 'gone',
        leads: 0,
        status: undefined,
      })),
    )
  }

  start(): void {
    for (const candidate of this.candidates) this.#spawn(candidate)
  }

  get leader(): Candidate | undefined {
    return this.candidates.find(({ leads, condition }) => leads > 0 && condition === 'runs')
  }

  /** Injects a fault into the leader or into something that it needs. */
  async harm(harm: Harm): Promise<void> {
    const { leader } = this
    if (!leader) return this.#log('there is no leader right now: wait for the next one')
    if (this.#pending) return this.#log('the last fault is not over: wait for the next leader')
    const term = leader.leads
    this.#pending = { harm, name: nameOf(leader), term, atMs: machineMs() }
    this.#log(`${harms[harm]} ${nameOf(leader)}, the leader of term ${term}${notes[harm]}`)
    await this.#act(harm, leader)
  }

  /** Reads the resource of each cluster, as any client there can. */
  async look(): Promise<void> {
    await Promise.all(
      this.clusters.map(async ({ name, api }) => {
        const answer = await api.admin.request<{ status?: Shown }>('GET', resource).catch(() => undefined)
        const { leader = '', cluster = '', term = 0 } = answer?.body.status ?? {}
        this.shown.set(name, { leader, cluster, term })
      }),
    )
  }

  /** Ends all candidates. */
  async end(): Promise<void> {
    this.#ended = true
    for (const timer of this.#timers) clearTimeout(timer)
    const running = this.candidates.flatMap(({ child }) => child ?? [])
    const gone = running.map((child) => once(child, 'exit'))
    for (const child of running) child.kill('SIGKILL')
    await Promise.all(gone)
  }

  async #act(harm: Harm, leader: Candidate): Promise<void> {
    const { child, cluster } = leader
    switch (harm) {
      // A clean stop releases the lease, so nobody has to wait.
      case 'stop':
        leader.condition = 'stopping'
        return void child?.send('stop')
      case 'kill':
        leader.condition = 'gone'
        return void child?.kill('SIGKILL')
      case 'controller': {
        const controller = await firstOf(cluster.controllers)
        await controller.kill()
        this.#later(absenceMs, () => void controller.start().catch((error: Error) => this.#log(error.message)))
        return this.#later(keptMs, () => this.#judgeKept(leader))
      }
      // The leader and its cluster still run, but cannot reach the global etcd.
      case 'cut':
        this.cutOff.add(cluster)
        cluster.backbone.set('blackhole')
        return this.#later(2 * leaseDurationMs, () => {
          this.cutOff.delete(cluster)
          cluster.backbone.set('pass')
          cluster.backbone.reset()
          this.#log(`cluster ${cluster.name} reaches the global etcd again`)
        })
    }
  }

  #spawn(candidate: Candidate): void {
    const { identity, cluster } = candidate
    const child = fork(join(import.meta.dirname, 'candidate.js'), [identity, String(leaseDurationMs)], {
      env: { ...process.env, KUBECONFIG: cluster.kubeConfig.candidate },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    Object.assign(candidate, { child, condition: 'runs', leads: 0, status: undefined })
    this.#log(`${nameOf(candidate)} starts as process ${child.pid}`)
    child.on('message', (report: Report) => this.#take(candidate, report))
    child.stderr?.setEncoding('utf8').on('data', (text: string) => this.#log(`${nameOf(candidate)}: ${text.trim()}`))
    // Sending to a process that has just died fails. Its exit event is handled elsewhere.
    child.on('error', () => {})
    child.once('exit', () => {
      Object.assign(candidate, { child: undefined, condition: 'gone', leads: 0, status: undefined })
      this.#later(restartMs, () => this.#spawn(candidate))
    })
  }

  #take(candidate: Candidate, report: Report): void {
    if (this.#ended) return
    if (report.type === 'status') candidate.status = report
    if (report.type === 'lost') {
      candidate.leads = 0
      if (report.reason !== 'stopped')
        this.#log(`${nameOf(candidate)} knows that it lost term ${report.term} (${report.reason})`)
    }
    if (report.type === 'elected') {
      candidate.leads = report.term
      this.highestTerm = Math.max(this.highestTerm, report.term)
      this.#logElection(nameOf(candidate), report)
    }
  }

  #logElection(name: string, { term, atMs }: { term: number; atMs: number }): void {
    const pending = this.#pending
    if (!pending || term <= pending.term || pending.harm === 'controller') {
      this.#log(`${name} leads term ${term}`)
      if (!pending) this.#onSettled()
      return
    }
    const tookMs = atMs - pending.atMs
    const before = `${harms[pending.harm]} ${pending.name} (term ${pending.term})`
    this.#settle(tookMs, `${before} -> ${name} leads term ${term} after ${inMs(tookMs)}`)
  }

  #judgeKept({ leads }: Candidate): void {
    const { name, term } = this.#pending ?? { name: '', term: 0 }
    if (leads === term) this.#settle(undefined, `${name} still leads term ${term}: another controller answers`)
    else this.#settle(undefined, `${name} no longer leads: no controller answered in time`)
  }

  #settle(tookMs: number | undefined, text: string): void {
    const pending = this.#pending
    this.#pending = undefined
    if (pending) this.results.push({ harm: pending.harm, tookMs })
    this.#log(text)
    this.#onSettled()
  }

  #later(delayMs: number, action: () => void): void {
    if (this.#ended) return
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      action()
    }, delayMs)
    this.#timers.add(timer)
  }
}

const notes: Readonly<Record<Harm, string>> = {
  stop: '',
  kill: ': its lease must expire',
  controller: '',
  cut: ': its lease must expire',
}

export function nameOf({ identity, cluster }: Candidate): string {
  return `${cluster.name}/${identity}`
}

/** Returns the controller that answers first, or any controller if none reports that it does. */
async function firstOf(controllers: readonly Controller[]): Promise<Controller> {
  for (const controller of controllers) {
    if (await controller.isFirst().catch(() => false)) return controller
  }
  return controllers[0] as Controller
}
