import { describe, test } from 'vitest'
import { storeConformance } from '../../../testing/src/conformance/index.ts'
import { simulatedSwap } from '../../../testing/src/simulation/simulated-swap.ts'
import { swapStore } from '../../src/store-kit/compare-and-swap-store.ts'
import { fakeClock } from '../../../testing/src/index.ts'

describe('swapStore over a server that keeps the highest term separately and returns the state with a refusal', () => {
  const makeStore = () => {
    const clock = fakeClock()
    const server = simulatedSwap()
    const open = () => swapStore(server, clock)
    return { store: open(), open, remove: (election: string) => server.delete(election), pass: clock.advance }
  }
  for (const { name, run } of storeConformance(makeStore)) test(name, run)
})
