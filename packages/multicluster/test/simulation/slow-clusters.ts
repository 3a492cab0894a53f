import type { LeaseStore } from 'tenure'
import { Elector } from '../../../tenure/src/engine/elector.ts'
import { memoryResources, type MemoryResources } from '../../../tenure/src/multicluster/memory-resources.ts'
import { relayedStore } from '../../../tenure/src/multicluster/relayed-store.ts'
import type { Resources } from '../../../tenure/src/multicluster/resources.ts'
import { swapStore } from '../../../tenure/src/store-kit/compare-and-swap-store.ts'
import { fakeClock } from '../../../testing/src/fakes/fake-clock.ts'
import { Random } from '../../../testing/src/simulation/random.ts'
import { simulatedSwap } from '../../../testing/src/simulation/simulated-swap.ts'
import { Relay } from '../../src/relay/relay.ts'

type Call<Args extends unknown[], T> = (...args: Args) => Promise<T>

/** A candidate. `die` permanently cuts it off from its API server. */
export interface SlowCandidate {
  readonly cluster: MemoryResources
  readonly elector: Elector
  /** When its lease was last renewed. */
  renewedAtMs: number
  die(): void
}

/**
 * Two clusters with two relays each, in virtual time. Messages take different amounts of time, so calls overtake each
 * other.
 */
export class SlowClusters {
  readonly clock = fakeClock()
  readonly random: Random
  readonly clusters: readonly MemoryResources[]
  readonly #leaseDurationMs: number
  readonly #global = simulatedSwap()
  #candidates = 0
  #uids = 0

  constructor(seed: number, leaseDurationMs: number) {
    this.random = new Random(seed)
    this.#leaseDurationMs = leaseDurationMs
    this.clusters = ['east', 'west'].map((cluster) => {
      const resources = memoryResources(() => `${cluster}-${++this.#uids}`)
      for (const isFirst of [true, false]) {
        const store = this.#slowStore()
        const { clock } = this
        new Relay({ resources: this.#slow(resources), store, cluster, clock, isFirst: () => isFirst }).start()
      }
      return resources
    })
  }

  start(cluster: MemoryResources): SlowCandidate {
    let isDead = false
    const { clock } = this
    const resources = this.#slow(cluster, () => isDead)
    const elector = new Elector({
      store: relayedStore(resources, 'jobs', clock),
      election: 'nightly',
      identity: `candidate-${++this.#candidates}`,
      leaseDurationMs: this.#leaseDurationMs,
      clock,
      observer: { onEvent: ({ type }) => void (type === 'renewed' && (candidate.renewedAtMs = clock.monotonicMs())) },
    })
    const candidate: SlowCandidate = { cluster, elector, renewedAtMs: -Infinity, die: () => void (isDead = true) }
    elector.start()
    return candidate
  }

  /** One message in twenty is slow. */
  #latencyMs(): number {
    return this.random.chance(0.05) ? this.random.between(20, 200) : this.random.between(1, 15)
  }

  #wait(ms = this.#latencyMs()): Promise<void> {
    return new Promise((resolve) => void this.clock.setTimer(ms, () => resolve()))
  }

  #delayed<Args extends unknown[], T>(work: Call<Args, T>, isDead = () => false): Call<Args, T> {
    return async (...args) => {
      if (isDead()) return new Promise<T>(() => {})
      await this.#wait()
      const answer = await work(...args)
      await this.#wait()
      return answer
    }
  }

  #slow(resources: Resources, isDead?: () => boolean): Resources {
    return {
      get: this.#delayed(resources.get, isDead),
      create: this.#delayed(resources.create, isDead),
      patchSpec: this.#delayed(resources.patchSpec, isDead),
      patchStatus: this.#delayed(resources.patchStatus, isDead),
      watch: (of, call) => this.#inOrder(resources.watch(of, call)),
    }
  }

  #slowStore(): LeaseStore {
    const store = swapStore(this.#global, this.clock)
    return {
      ...store,
      read: this.#delayed(store.read),
      acquire: this.#delayed(store.acquire),
      renew: this.#delayed(store.renew),
      release: this.#delayed(store.release),
      watch: (election, call) => this.#inOrder(store.watch?.(election, call) ?? []),
    }
  }

  /** The events of a watch. Each is late, and none overtakes another. */
  async *#inOrder<T>(events: AsyncIterable<T> | Iterable<T>): AsyncGenerator<T, void, undefined> {
    for await (const event of events) {
      await this.#wait()
      yield event
    }
  }
}
