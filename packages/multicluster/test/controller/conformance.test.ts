import { describe, test } from 'vitest'
import { storeConformance } from '../../../testing/src/conformance/index.ts'
import { leaseNameOf } from '../../../tenure/src/kubernetes/codec/lease-name.ts'
import { memoryResources } from '../../../tenure/src/multicluster/memory-resources.ts'
import { relayedStore } from '../../../tenure/src/multicluster/relayed-store.ts'
import { simulatedSwap } from '../../../testing/src/simulation/simulated-swap.ts'
import { swapStore } from '../../../tenure/src/store-kit/compare-and-swap-store.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { Relay } from '../../src/relay/relay.ts'

/**
 * Cases that do not hold with a relay. The relay decides expiry for candidates that do not decide it themselves, and it
 * does not watch a lease that is held in its own cluster.
 */
const otherwise = ['acquire of a held lease is refused without expiredVersion', 'a watch shows a removal']

describe('the lock passes the conformance suite with a relay', () => {
  const makeStore = () => {
    const clock = fakeClock()
    const server = simulatedSwap()
    const resources = memoryResources(() => clock.randomId())
    const relay = new Relay({ resources, store: swapStore(server, clock), cluster: 'east', clock, isFirst: () => true })
    relay.start()
    const open = () => relayedStore(resources, 'jobs', clock)
    return {
      store: open(),
      open,
      remove: (election: string) => server.delete(`jobs/${leaseNameOf(election)}`),
      pass: clock.advance,
      longestHolderBytes: 192,
      close: () => relay.stop(),
    }
  }
  const cases = storeConformance(makeStore).filter(({ name }) => !otherwise.includes(name))
  for (const { name, run } of cases) test(name, run)
})
