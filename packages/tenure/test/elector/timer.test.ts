import { expect, test } from 'vitest'
import { Elector } from '../../src/elector.ts'
import { memoryStore } from '../../src/stores/memory.ts'
import { fakeClock } from '../../src/testing/index.ts'

test('a pause between the look at the clock and the start of its timer does not put the end off', async () => {
  const fake = fakeClock()
  const renewIntervalMs = 4_000
  let pausedMs = 0
  let pauseMs = 0
  const clock = {
    ...fake,
    monotonicMs: () => fake.monotonicMs() + pausedMs,
    machineMs: () => fake.machineMs() + pausedMs,
    bootMs: () => fake.bootMs() + pausedMs,
    wallMs: () => fake.wallMs() + pausedMs,
    setTimer(...[delayMs, callback, options]: Parameters<typeof fake.setTimer>) {
      // The process stands still here, and everything else goes on.
      if (delayMs === renewIntervalMs) {
        pausedMs += pauseMs
        pauseMs = 0
      }
      return fake.setTimer(delayMs, callback, options)
    },
  }
  const elector = new Elector({ store: memoryStore({ clock }), election: 'jobs', renewIntervalMs, clock })
  elector.start()
  await fake.advance(0)
  const leadership = await elector.waitForLeadership()
  const { signal } = leadership
  // The renewal is answered at once, and the timer for the next one is set.
  pauseMs = 60_000
  await fake.advance(renewIntervalMs)
  expect(pausedMs).toBe(60_000)
  await fake.advance(10)
  expect(leadership.isLeader()).toBe(false)
  expect(signal.aborted).toBe(true)
  await elector.stop()
})
