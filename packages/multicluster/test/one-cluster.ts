import { onTestFinished } from 'vitest'
import type { LeaseStore } from 'tenure'
import { memoryResources } from '../../tenure/src/multicluster/memory-resources.ts'
import type { MultiClusterRequest } from '../../tenure/src/multicluster/resource.ts'
import { simulatedSwap } from '../../tenure/src/simulation/simulated-swap.ts'
import { swapStore } from '../../tenure/src/stores/swap.ts'
import type { FakeClock } from '../../tenure/src/testing/fake-clock.ts'
import { Relay, type RelayOptions } from '../src/relay.ts'

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

/** What to build a cluster of. */
interface Parts {
  /** The relay, which may be one with a mistake in it. */
  readonly Relay: typeof Relay
}

/** One cluster. Relays are started by the test. */
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

/** A global store that remembers its highest term, and whose changes nobody is told of. */
export function quietStore(clock: FakeClock) {
  const server = simulatedSwap()
  const { watch: _, ...store } = swapStore(server, clock)
  return { server, store }
}
