import { describe, test } from 'vitest'
import { storeConformance } from '../../src/conformance/index.ts'
import { memoryResources } from '../../src/multicluster/memory-resources.ts'
import { relayedStore } from '../../src/multicluster/relayed-store.ts'
import { simulatedSwap } from '../../src/simulation/simulated-swap.ts'
import { swapStore } from '../../src/store-kit/compare-and-swap-store.ts'
import { fakeClock } from '../../src/testing/index.ts'
import { startRelay } from '../multicluster/honest-relay.ts'

describe('the store of a multi-cluster lock conforms', () => {
  const makeStore = () => {
    const clock = fakeClock()
    const server = simulatedSwap()
    const resources = memoryResources(() => clock.randomId())
    const relay = startRelay(resources, swapStore(server, clock))
    const open = () => relayedStore(resources, 'jobs', clock)
    return {
      store: open(),
      open,
      remove: (election: string) => server.delete(`jobs/${election}`),
      pass: clock.advance,
      close: () => relay.stop(),
    }
  }
  for (const { name, run } of storeConformance(makeStore)) test(name, run)
})
