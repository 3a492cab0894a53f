import { onTestFinished } from 'vitest'
import type { Clock, ElectorOptions, LeaseRecord } from 'tenure'
import { Elector } from '../../tenure/src/engine/elector.ts'
import { memoryResources, type MemoryResources } from '../../tenure/src/multicluster/memory-resources.ts'
import { relayedStore } from '../../tenure/src/multicluster/relayed-store.ts'
import type { MultiClusterLease, MultiClusterLeaseSpec } from '../../tenure/src/multicluster/protocol/resource-types.ts'
import type { Resources } from '../../tenure/src/multicluster/resources.ts'
import { simulatedSwap } from '../../testing/src/simulation/simulated-swap.ts'
import { swapStore } from '../../tenure/src/store-kit/compare-and-swap-store.ts'
import { fakeClock, type FakeClock } from '../../testing/src/fakes/fake-clock.ts'
import type { GlobalCallReport, LeadershipReport } from '../src/calls/observer.ts'
import { Relay } from '../src/relay/relay.ts'

export const key = { namespace: 'jobs', name: 'nightly' }
export const call = { signal: new AbortController().signal }
const leaseDurationMs = 15_000

/** One cluster, and the actions that a test takes in it. */
export class TestCluster {
  readonly resources: MemoryResources
  readonly calls: GlobalCallReport[] = []
  readonly changes: LeadershipReport[] = []
  readonly relay: Relay
  readonly #clock: FakeClock
  #writes = 0

  constructor(
    name: string,
    clock: FakeClock,
    global: ReturnType<typeof simulatedSwap>,
    { ownClock, through }: { ownClock: Clock; through: (resources: MemoryResources) => Resources },
  ) {
    this.#clock = clock
    let uids = 0
    this.resources = memoryResources(() => `${name}-${++uids}`)
    this.relay = new Relay({
      resources: through(this.resources),
      store: swapStore(global, ownClock),
      cluster: name,
      clock: ownClock,
      isFirst: () => true,
      observer: { onCall: (report) => this.calls.push(report), onLeadership: (report) => this.changes.push(report) },
    })
    this.relay.start()
    onTestFinished(() => this.relay.stop())
  }

  /** Starts a candidate. `die` permanently cuts it off from its API server. */
  candidate(identity: string, options: Partial<ElectorOptions> = {}): { elector: Elector; die(): void } {
    let isDead = false
    const mortal =
      <Args extends unknown[], T>(work: (...args: Args) => Promise<T>) =>
      (...args: Args): Promise<T> =>
        isDead ? new Promise<T>(() => {}) : work(...args)
    const { resources } = this
    const own: Resources = {
      get: mortal(resources.get),
      create: mortal(resources.create),
      patchSpec: mortal(resources.patchSpec),
      patchStatus: mortal(resources.patchStatus),
      watch: resources.watch,
    }
    const store = relayedStore(own, key.namespace, this.#clock)
    const elector = new Elector({
      store,
      election: key.name,
      identity,
      leaseDurationMs,
      clock: this.#clock,
      ...options,
    })
    elector.start()
    onTestFinished(() => void elector.stop())
    return { elector, die: () => (isDead = true) }
  }

  /** Writes the heartbeat of a spec-only candidate. */
  async beat(identity: string, spec: Partial<MultiClusterLeaseSpec> = {}): Promise<MultiClusterLease> {
    const renewTime = new Date(this.#clock.wallMs() + ++this.#writes).toISOString().replace('Z', '000Z')
    const fields = { holderIdentity: identity, leaseDurationSeconds: 15, renewTime, requests: {}, ...spec }
    const written =
      (await this.resources.patchSpec(key, fields, call)) ?? (await this.resources.create(key, fields, undefined, call))
    return written as MultiClusterLease
  }

  async shown(): Promise<MultiClusterLease> {
    return (await this.resources.get(key, call)) as MultiClusterLease
  }

  async condition(type: string): Promise<{ status: string; reason: string; lastTransitionTime: string } | undefined> {
    return (await this.shown()).status.conditions?.find((condition) => condition.type === type)
  }
}

/** Creates two clusters with one global store, in virtual time. */
export function twoClusters(
  options: { westClock?: (clock: FakeClock) => Clock; through?: (resources: MemoryResources) => Resources } = {},
) {
  const clock = fakeClock()
  const global = simulatedSwap()
  const store = swapStore(global, clock)
  const { through = (resources) => resources, westClock = (own) => own } = options
  return {
    clock,
    global,
    store,
    leaseDurationMs,
    record: (): Promise<LeaseRecord | undefined> => store.read('jobs/nightly', call),
    east: new TestCluster('east', clock, global, { ownClock: clock, through }),
    west: new TestCluster('west', clock, global, { ownClock: westClock(clock), through: (resources) => resources }),
  }
}
