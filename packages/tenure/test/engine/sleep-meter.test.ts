import { expect, test } from 'vitest'
import type { Clock } from '../../src/index.ts'
import { SleepMeter } from '../../src/engine/sleep-meter.ts'

/** The clocks of a machine that can sleep and of a process that can stall between two clock readings. */
function machine({ awakeMs = 1_000 } = {}) {
  let sleptMs = 0
  let wallAheadMs = 1.9e12
  const stalls: number[] = []
  const read = (value: () => number) => () => {
    const reading = value()
    awakeMs += stalls.shift() ?? 0
    return reading
  }
  const clock: Clock = {
    monotonicMs: read(() => awakeMs),
    machineMs: read(() => awakeMs),
    bootMs: read(() => Math.floor((awakeMs + sleptMs) / 10) * 10),
    wallMs: read(() => wallAheadMs + awakeMs + sleptMs),
    setTimer: () => ({ cancel: () => undefined }),
    random: () => 0,
    randomId: () => 'id',
  }
  const meter = SleepMeter.of(clock)
  return {
    /** The time, in ms, that a lease holder must count as passed. */
    held: () => {
      const nowMs = clock.monotonicMs()
      return nowMs + meter.sleptMs(nowMs)
    },
    pass: (ms: number) => void (awakeMs += ms),
    sleep: (ms: number) => void (sleptMs += ms),
    /** Sets the wall clock, which makes the meter compare the clocks. */
    setWall: () => void (wallAheadMs += 1_000),
    stallBetweenReadings: (...ms: number[]) => void stalls.push(...ms),
  }
}

test('a sleep counts as passed time, within the resolution of boot time', () => {
  const { held, sleep } = machine()
  const before = held()
  sleep(20_000)
  expect(held() - before).toBeGreaterThanOrEqual(19_990)
})

test.each([[20_000], [0, 20_000], [0, 0, 20_000], [0, 0, 0, 20_000], [0, 0, 0, 0, 20_000]])(
  'a stall between two clock readings counts as passed time at once and does not hide a later sleep: %j',
  (...stall) => {
    const { held, sleep, stallBetweenReadings } = machine()
    const before = held()
    stallBetweenReadings(...stall)
    // Each call reads at least two clocks, so a few calls use up all stalls.
    for (let question = 0; question < 4; question += 1) held()
    const after = held()
    expect(after - before).toBeGreaterThanOrEqual(20_000)
    sleep(19_000)
    expect(held() - after).toBeGreaterThanOrEqual(18_980)
  },
)

test('setting the wall clock does not count as sleep', () => {
  const { held, pass, setWall } = machine()
  const before = held()
  pass(1_000)
  setWall()
  expect(held() - before).toBeLessThanOrEqual(1_010)
})

test.each([1_000, 1_001, 1_005, 1_009])(
  'rounding of boot time does not count as sleep in a process that starts at %d ms',
  (awakeMs) => {
    const { held, pass, setWall } = machine({ awakeMs })
    const before = held()
    for (let ms = 1; ms <= 20; ms += 1) {
      pass(1)
      setWall()
      expect(held() - before).toBe(ms)
    }
  },
)

test('a stall of a few milliseconds between two clock readings does not count as sleep', () => {
  const { held, setWall, stallBetweenReadings } = machine({ awakeMs: 1_009 })
  const before = held()
  setWall()
  stallBetweenReadings(0, 0, 12)
  held()
  expect(held() - before).toBe(12)
})

test('sleeps that are each within the rounding error add up', () => {
  const { held, sleep, setWall } = machine()
  const before = held()
  for (let count = 0; count < 10; count += 1) {
    sleep(10)
    setWall()
    held()
  }
  expect(held() - before).toBeGreaterThan(80)
})
