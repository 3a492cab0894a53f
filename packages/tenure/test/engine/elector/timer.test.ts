import { expect, test } from 'vitest'
import { Elector } from '../../../src/engine/elector.ts'
import { memoryStore } from '../../../src/stores/memory/index.ts'
import { fakeClock } from '../../../../testing/src/index.ts'

test('a pause between reading the clock and setting the timer does not delay the end of leadership', async () => {
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
      // The process is paused here while everything else continues.
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
  // The store answers the renewal at once, and the elector sets the timer for the next one.
  pauseMs = 60_000
  await fake.advance(renewIntervalMs)
  expect(pausedMs).toBe(60_000)
  await fake.advance(10)
  expect(leadership.isLeader()).toBe(false)
  expect(signal.aborted).toBe(true)
  await elector.stop()
})
