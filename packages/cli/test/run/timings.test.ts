import { expect, test } from 'vitest'
import { Backoff } from '../../src/run/restart.ts'
import { divideLease } from '../../src/run/timings.ts'

test('divideLease leaves a margin of at least 100 ms between SIGKILL and the end of the lease for every lease that it accepts', () => {
  let accepted = 0
  for (let ttlMs = 100; ttlMs <= 3_600_000; ttlMs = Math.ceil(ttlMs * 1.037)) {
    for (const share of [undefined, 0, 0.05, 0.2]) {
      let timings
      try {
        timings = divideLease(ttlMs, share === undefined ? undefined : Math.floor(ttlMs * share))
      } catch {
        // Only short leases are rejected.
        expect(ttlMs).toBeLessThan(1_000)
        continue
      }
      accepted += 1
      const { renewDeadlineMs, graceMs, marginMs } = timings
      const beliefMs = (ttlMs * 0.99) / 1.01
      expect(marginMs).toBeGreaterThanOrEqual(100)
      expect(renewDeadlineMs + graceMs + marginMs).toBeLessThanOrEqual(beliefMs)
    }
  }
  expect(accepted).toBeGreaterThan(500)
})

test.each([
  [15_000, 3_001],
  [1_000, 201],
])('divideLease rejects a lease of %d ms with a grace of %d ms', (ttlMs, graceMs) => {
  expect(() => divideLease(ttlMs, graceMs)).toThrow(/a fifth/)
})

test('Backoff doubles its delays up to a minute and resets after a long run', () => {
  const backOff = new Backoff(10_000)
  expect([0, 0, 0, 0, 0, 60_000, 0].map((lastedMs) => backOff.after(lastedMs) / 1_000)).toEqual([
    10, 20, 40, 60, 60, 10, 20,
  ])
})
