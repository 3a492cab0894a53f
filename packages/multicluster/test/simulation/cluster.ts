import type { TimingOptions } from '../../../tenure/src/engine/timings.ts'
import { latestDeadlineMs } from '../../../tenure/src/engine/timings.ts'
import { memoryResources, type MemoryResources } from '../../../tenure/src/multicluster/memory-resources.ts'
import type {
  MultiClusterLease,
  MultiClusterLeaseStatus,
} from '../../../tenure/src/multicluster/protocol/resource-types.ts'
import { relayedStore } from '../../../tenure/src/multicluster/relayed-store.ts'
import { Candidate } from '../../../testing/src/simulation/candidate.ts'
import { type Link, LinkServer } from '../../../testing/src/simulation/link.ts'
import type { Machine } from '../../../testing/src/simulation/machine.ts'
import { Relay } from '../../src/relay/relay.ts'
import { SpecOnlyCandidate } from './spec-only-candidate.ts'
import { linkResources } from './link-resources.ts'
import { newLink, newMachine, type Global, type Scene } from './scene.ts'

export const election = 'simulated'
const namespace = 'jobs'
const busyTimers = 150

/** A relay on its own machine. */
export interface RelayProcess {
  readonly machine: Machine
  readonly toApi: Link
  readonly toGlobal: Link
  readonly relay: Relay
}

export interface ClusterPlan {
  readonly name: string
  readonly candidates: number
  readonly relays: number
  /** Whether every relay believes that it is the primary. */
  readonly isContested: boolean
  readonly kind: 'engine' | 'spec-only'
}

/** One cluster: an API server, relays, and candidates. Pods have the same names in all clusters. */
export class Cluster {
  readonly name: string
  readonly api: LinkServer
  readonly resources: MemoryResources
  candidates: (Candidate | SpecOnlyCandidate)[] = []
  relays: RelayProcess[] = []
  readonly #scene: Scene
  readonly #global: Global
  readonly #plan: ClusterPlan
  /** Candidates that another process of the same name has replaced. */
  readonly #superfluous = new WeakSet<object>()
  #uids = 0
  #first = 0
  #backups: (readonly MultiClusterLease[])[] = []

  constructor(scene: Scene, global: Global, plan: ClusterPlan) {
    this.#scene = scene
    this.#global = global
    this.#plan = plan
    this.name = plan.name
    this.api = new LinkServer(scene.world)
    this.resources = this.#checked(memoryResources(() => `${plan.name}-${++this.#uids}`))
    for (let index = 0; index < plan.relays; index += 1) this.addRelay(index)
    for (let index = 0; index < plan.candidates; index += 1) this.#add(`pod-${index}`)
  }

  /** Starts a relay with an empty memory. */
  addRelay(index: number): void {
    const machine = newMachine(this.#scene)
    const toApi = newLink(this.#scene, machine, this.api)
    const toGlobal = newLink(this.#scene, machine, this.#global.server)
    const relay = new Relay({
      resources: linkResources(toApi, this.resources),
      store: this.#global.through(toGlobal, machine.clock),
      cluster: this.name,
      clock: machine.clock,
      isFirst: () => this.#plan.isContested || this.#first === index,
    })
    this.relays[index] = { machine, toApi, toGlobal, relay }
    relay.start()
  }

  /** Crashes the process of a relay. Messages that it sent may still arrive. */
  crashRelay(index: number): void {
    const process = this.relays[index]
    if (!process) return
    process.machine.crash()
    void process.relay.stop()
    // The other relays notice the loss after a while.
    this.#scene.world.after(this.#scene.leaseDurationMs, () => {
      const alive = this.relays.findIndex(({ machine }) => machine.state === 'running')
      if (alive !== -1) this.#first = alive
    })
  }

  /** Replaces a dead or stopped process with a new one of the same name. */
  replace(old: Candidate | SpecOnlyCandidate): void {
    if (!this.candidates.includes(old)) return
    this.remove(old)
    if (!this.#superfluous.has(old)) this.#add(old.name)
  }

  remove(old: Candidate | SpecOnlyCandidate): void {
    this.candidates = this.candidates.filter((candidate) => candidate !== old)
  }

  /** Starts another process of the same name because the first was considered dead. The first may still be running. */
  addNamesake(old: Candidate | SpecOnlyCandidate): void {
    if (this.#superfluous.has(old)) return
    this.#superfluous.add(old)
    this.#add(old.name)
  }

  deleteResource(): void {
    this.resources.delete({ namespace, name: election })
  }

  /** Makes a backup of the API server from time to time. */
  backUp(): void {
    this.#backups = [...this.#backups.slice(-3), this.resources.backup()]
  }

  /** Restores the API server from a backup. All of its watches end. */
  restore(): boolean {
    const backup = this.#backups.length > 0 ? this.#scene.random.pick(this.#backups) : undefined
    if (!backup) return false
    this.resources.restore(backup)
    return true
  }

  status(): MultiClusterLease | undefined {
    return this.resources.backup()[0]
  }

  /** Reports relays that are in a busy loop. Such a relay sets hundreds of timers a second. */
  inspect(): void {
    for (const { machine } of this.relays) {
      if (machine.busiest > busyTimers) {
        this.#scene.checker.violate('busy', `a relay of ${this.name} set ${machine.busiest} timers within a second`)
      }
    }
  }

  /** No status may show a lower term after a higher one, or a lease as held after its release. */
  #checked(resources: MemoryResources): MemoryResources {
    return {
      ...resources,
      patchStatus: async (key, patch, over, call) => {
        const before = await resources.get(key, call)
        const after = await resources.patchStatus(key, patch, over, call)
        if (before && after && before.uid === after.uid) this.#compare(before.status, after.status)
        return after
      },
    }
  }

  #compare(before: MultiClusterLeaseStatus, after: MultiClusterLeaseStatus): void {
    const { checker } = this.#scene
    if ((after.term ?? 0) < (before.term ?? 0)) {
      checker.violate('status', `${this.name} shows term ${after.term} after term ${before.term}`)
    }
    if (after.term === before.term && before.record?.released && after.record?.released === false) {
      checker.violate('status', `${this.name} shows term ${after.term} as held after its release`)
    }
  }

  #add(name: string): void {
    const scene = this.#scene
    const machine = newMachine(scene)
    const link = newLink(scene, machine, this.api)
    const resources = linkResources(link, this.resources)
    const label = `${this.name}/${name}`
    if (this.#plan.kind === 'spec-only') {
      const key = { namespace, name: election }
      const candidate = new SpecOnlyCandidate({ name, label, scene, machine, link, resources, key })
      this.candidates.push(candidate)
      candidate.start()
      return
    }
    const candidate = new Candidate({
      name,
      world: scene.world,
      random: scene.random.fork(),
      machine,
      link,
      checker: scene.checker,
      timeline: {
        add: (atMs: number, who: string, what: string) => scene.timeline.add(atMs, who === name ? label : who, what),
      } as typeof scene.timeline,
      habits: { windDownMs: 100, writeDelayMs: 4 * scene.leaseDurationMs, writeEveryMs: scene.leaseDurationMs },
      onStopped: (stopped) => {
        const awayMs = scene.random.next() * 2 * scene.leaseDurationMs
        scene.checker.fault(scene.world.nowMs + awayMs)
        scene.world.after(awayMs, () => this.replace(stopped))
      },
      elector: {
        store: relayedStore(resources, namespace, machine.clock),
        election,
        drainTimeoutMs: 20_000,
        ...this.#timings(),
      },
    })
    this.candidates.push(candidate)
    candidate.start()
  }

  #timings(): TimingOptions {
    const { leaseDurationMs, driftRatio, random } = this.#scene
    if (random.chance(0.3)) return { leaseDurationMs, driftRatio }
    return {
      leaseDurationMs,
      driftRatio,
      renewDeadlineMs: latestDeadlineMs(leaseDurationMs, driftRatio),
      renewIntervalMs: leaseDurationMs / 3,
      retryIntervalMs: leaseDurationMs / 30,
    }
  }
}
