import { expect, test } from 'vitest'
import { noCounts } from '../../../testing/src/simulation/explore/checker.ts'
import type { ModelState } from '../../../testing/src/simulation/explore/model-state.ts'
import { electorsWorld } from '../../../testing/src/simulation/explore/transitions.ts'
import { relaySetup, retraceRelays, type ExploredRelays } from '../simulation/explored-relays.ts'

const options: ExploredRelays = {
  leaseTicks: 6,
  relaysOf: [[0, 1], [2]],
  relaysWatch: true,
  faults: ['relay-crash', 'relay-sleep', 'late', 'deleted-record'],
}

test('a model state with relays is the same after it was encoded and decoded', () => {
  const world = electorsWorld(relaySetup(options), 1, noCounts())
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1')
  const known = new Set<string>()
  const waiting: ModelState[] = [world.first]
  for (const scene of waiting) {
    if (known.size > 1_000) break
    world.expand(scene, (next, ticks) => {
      const written = text(world.write(next, ticks))
      const read = world.read(Buffer.from(written, 'latin1'), 0)
      expect(text(world.write(read, 0))).toBe(written)
      if (!known.has(written)) waiting.push(read)
      known.add(written)
      return true
    })
  }
  expect(known.size).toBeGreaterThan(1_000)
})

test('a trace names the relay that forwards a call', () => {
  const story = retraceRelays({ leaseTicks: 6, faults: [] }, [0, 1, 0])
  expect(story).toMatch(
    /a sends acquire after term 0\n.*relay 1 gets a's acquire\n.*a gets the answer to a's acquire\n/,
  )
  expect(story).toMatch(/a leads term 1$/)
})
