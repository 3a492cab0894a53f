import { describe, test } from 'vitest'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { memoryResources } from '../../../src/multicluster/memory-resources.ts'
import { relayedStore } from '../../../src/multicluster/relayed-store.ts'
import { simulatedSwap } from '../../../../testing/src/simulation/simulated-swap.ts'
import { swapStore } from '../../../src/store-kit/compare-and-swap-store.ts'
import { fakeClock } from '../../../../testing/src/index.ts'
import { startRelay } from '../../multicluster/minimal-controller.ts'

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
