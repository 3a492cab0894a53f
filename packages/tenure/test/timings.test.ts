import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Elector } from '../src/elector.ts'
import type { LeaseStore } from '../src/lease-store.ts'
import { memoryStore } from '../src/stores/memory.ts'
import { fakeClock } from '../src/testing/index.ts'
import { resolveTimings, type TimingOptions } from '../src/timings.ts'

test('a deadline that leaves two renewals no time to be answered is refused', () => {
  const timings = { renewIntervalMs: 9_800, renewDeadlineMs: 10_000, retryIntervalMs: 100 }
  expect(() => resolveTimings(timings)).toThrow('at least renewIntervalMs + leaseDurationMs / 50 (9800 + 300)')
})

test('clocks that are never wrong are refused: there are none', () => {
  expect(() => resolveTimings({ driftRatio: 0 })).toThrow('Option "driftRatio" is 0')
})

test('one number is enough: the rest is a third, two thirds and two fifteenths of it', () => {
  expect(resolveTimings({})).toMatchObject({
    leaseDurationMs: 15_000,
    renewIntervalMs: 5_000,
    renewDeadlineMs: 10_000,
    retryIntervalMs: 2_000,
    driftRatio: 0.01,
    answerBoundMs: 2_500,
  })
  fc.assert(
    fc.property(fc.integer({ min: 100, max: 2 ** 31 - 1 }), (leaseDurationMs) => {
      expect(() => resolveTimings({ leaseDurationMs })).not.toThrow()
    }),
  )
})

test('whatever is accepted, the slowest clock reaches its deadline before the fastest one ends the lease', () => {
  const ms = fc.integer({ min: 1, max: 30_000 })
  const options = fc.record({
    leaseDurationMs: fc.integer({ min: 100, max: 30_000 }),
    renewIntervalMs: ms,
    renewDeadlineMs: ms,
    retryIntervalMs: ms,
    driftRatio: fc.double({ min: 0, max: 0.9, noNaN: true }),
  })
  let accepted = 0
  fc.assert(
    fc.property(options, (given: TimingOptions) => {
      let timings
      try {
        timings = resolveTimings(given)
      } catch {
        return
      }
      accepted += 1
      const { leaseDurationMs, renewDeadlineMs, driftRatio, beliefEndMs } = timings
      expect(renewDeadlineMs / (1 - driftRatio)).toBeLessThan(leaseDurationMs / (1 + driftRatio))
      expect(beliefEndMs / (1 - driftRatio)).toBeCloseTo(leaseDurationMs / (1 + driftRatio), 6)
    }),
    { numRuns: 2_000 },
  )
  expect(accepted).toBeGreaterThan(10)
})

test('the end of belief and the bound of an answer are those of an elector', async () => {
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  const boundsMs: (number | undefined)[] = []
  const store: LeaseStore = {
    ...memory,
    renew(claim, options) {
      boundsMs.push(options.timeoutMs)
      return memory.renew(claim, options)
    },
  }
  const options = { leaseDurationMs: 10_000, renewIntervalMs: 2_000, renewDeadlineMs: 8_000 }
  const { beliefEndMs, answerBoundMs } = resolveTimings(options)
  const elector = new Elector({ store, election: 'timings', clock, ...options })
  elector.start()
  const leadership = await elector.waitForLeadership()
  expect(leadership.drainMs()).toBeCloseTo(beliefEndMs, 6)
  await clock.advance(options.renewIntervalMs)
  expect(boundsMs).toEqual([expect.closeTo(answerBoundMs, 6)])
  await elector.stop()
})
