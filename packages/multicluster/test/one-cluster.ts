import { onTestFinished } from 'vitest'
import type { LeaseStore } from 'tenure'
import { memoryResources } from '../../tenure/src/multicluster/memory-resources.ts'
import type { MultiClusterRequest } from '../../tenure/src/multicluster/protocol/resource-types.ts'
import { simulatedSwap } from '../../testing/src/simulation/simulated-swap.ts'
import { swapStore } from '../../tenure/src/store-kit/compare-and-swap-store.ts'
import type { FakeClock } from '../../testing/src/fakes/fake-clock.ts'
import { Relay, type RelayOptions } from '../src/relay/relay.ts'

export const key = { namespace: 'jobs', name: 'nightly' }
export const election = 'jobs/nightly'
export const call = { signal: new AbortController().signal }

export function acquire(id: string, claim: object = {}): MultiClusterRequest {
  return {
    id,
    verb: 'acquire',
    renewTime: '2030-01-01T00:00:00.000000Z',
    timeoutMs: 5_000,
    claim: { holder: 'a', attempt: id, leaseDurationMs: 15_000, afterTerm: 0, metadata: '{}', ...claim },
  }
}

/** The parts of a cluster that a test can replace. */
interface Parts {
  /** The relay, or a mutant of it. */
  readonly Relay: typeof Relay
}

/** Creates one cluster. The test starts the relays. */
export function oneCluster(clock: FakeClock, store: LeaseStore, parts: Parts = { Relay }) {
  const memory = memoryResources(() => clock.randomId())
  const start = (options: Partial<RelayOptions> = {}) => {
    const relay = new parts.Relay({ resources: memory, store, cluster: 'east', clock, isFirst: () => true, ...options })
    relay.start()
    onTestFinished(() => relay.stop())
    return relay
  }
  const put = async (requests: Record<string, MultiClusterRequest>, fields: object = {}) =>
    (await memory.patchSpec(key, { requests, ...fields }, call)) ??
    (await memory.create(key, { requests, ...fields }, undefined, call))
  let beats = 0
  const beat = (holderIdentity: string) =>
    put(
      {},
      {
        holderIdentity,
        leaseDurationSeconds: 15,
        renewTime: `2030-01-01T00:00:00.${String(++beats).padStart(6, '0')}Z`,
      },
    )
  const shown = async () => (await memory.get(key, call))?.status
  return { memory, start, put, beat, shown }
}

/** A global store that remembers its highest term and cannot be watched. */
export function quietStore(clock: FakeClock) {
  const server = simulatedSwap()
  const { watch: _, ...store } = swapStore(server, clock)
  return { server, store }
}
