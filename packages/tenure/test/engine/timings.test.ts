import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Elector } from '../../src/engine/elector.ts'
import type { LeaseStore } from '../../src/engine/lease-store.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { resolveTimings, type TimingOptions } from '../../src/engine/timings.ts'

test('a deadline that leaves no time to answer two renewals is rejected', () => {
  const timings = { renewIntervalMs: 9_800, renewDeadlineMs: 10_000, retryIntervalMs: 100 }
  expect(() => resolveTimings(timings)).toThrow('at least renewIntervalMs + leaseDurationMs / 50 (9800 + 300)')
})

test('a driftRatio of 0 is rejected, because no clock is perfect', () => {
  expect(() => resolveTimings({ driftRatio: 0 })).toThrow('Option "driftRatio" is 0')
})

test('the renew interval, renew deadline, and retry interval default to 1/3, 2/3, and 2/15 of the lease', () => {
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

test('with any accepted timings the slowest clock reaches its deadline before the fastest one ends the lease', () => {
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

const names = ['leaseDurationMs', 'renewIntervalMs', 'renewDeadlineMs', 'retryIntervalMs', 'driftRatio'] as const

/** Any subset of the timings. Some of the values are safe together, and others are not. */
const subset = fc
  .record({
    leaseDurationMs: fc.integer({ min: 100, max: 100_000 }),
    driftRatio: fc.constantFrom(0.001, 0.01, 0.2, 0.5),
  })
  .chain(({ leaseDurationMs, driftRatio }) => {
    const ms = fc.double({ min: 1, max: leaseDurationMs, noNaN: true })
    return fc.record(
      {
        leaseDurationMs: fc.constant(leaseDurationMs),
        driftRatio: fc.constant(driftRatio),
        renewIntervalMs: ms,
        renewDeadlineMs: ms,
        retryIntervalMs: ms,
      },
      { requiredKeys: [] },
    )
  })

/** Applies the rules with the smallest values for omitted timings. If those are not safe, no other values are. */
function hasSafeCompletion(given: TimingOptions): boolean {
  const { leaseDurationMs: lease = 15_000, driftRatio: d = 0.01 } = given
  const latestMs = (lease * (1 - d)) / (1 + d) - lease / 20
  const deadlineMs = given.renewDeadlineMs ?? latestMs
  return (
    deadlineMs <= latestMs &&
    deadlineMs >= (given.renewIntervalMs ?? 1) + Math.max(given.retryIntervalMs ?? 1, lease / 50)
  )
}

test('timings are accepted if and only if the given values can be completed to a safe set', () => {
  const seen = { accepted: 0, refused: 0 }
  fc.assert(
    fc.property(subset, (given: TimingOptions) => {
      if (!hasSafeCompletion(given)) {
        seen.refused += 1
        const error = errorOf(() => resolveTimings(given))
        expect(error).toMatchObject({ code: 'INVALID_OPTION' })
        const written = names.filter((name) => given[name] !== undefined)
        expect(written, 'the error names a given option').toContain(error.option)
        for (const name of written.filter((name) => name !== 'driftRatio' && name !== 'leaseDurationMs')) {
          if (given.renewDeadlineMs === undefined) expect(error.message).toContain(name)
        }
        return
      }
      seen.accepted += 1
      const timings = resolveTimings(given)
      expect(timings).toMatchObject(given)
      expect(hasSafeCompletion(timings), 'the derived timings are safe').toBe(true)
      for (const name of names) expect(timings[name]).toBeGreaterThan(0)
    }),
    { numRuns: 3_000 },
  )
  expect(Math.min(seen.accepted, seen.refused)).toBeGreaterThan(300)
})

function errorOf(call: () => unknown): { message: string; option?: string } {
  try {
    call()
  } catch (error) {
    return error as { message: string; option?: string }
  }
  return expect.fail('nothing was thrown')
}

test('a lease of 10 s with renewals every 5 s and retries every 2 s is accepted', () => {
  const timings = resolveTimings({ leaseDurationMs: 10_000, renewIntervalMs: 5_000, retryIntervalMs: 2_000 })
  expect(timings).toMatchObject({ renewIntervalMs: 5_000, retryIntervalMs: 2_000 })
  expect(timings.renewDeadlineMs).toBeGreaterThan(9_000)
  expect(timings.renewDeadlineMs).toBeLessThan(9_303)
})

test('an error about timings names only given values, no derived ones', () => {
  expect(() => resolveTimings({ renewIntervalMs: 9_000, retryIntervalMs: 6_000 })).toThrow(
    'Option "renewIntervalMs" is 9000, but renewIntervalMs + retryIntervalMs (9000 + 6000) must be at most 13952 with leaseDurationMs 15000 and driftRatio 0.01',
  )
})

test('resolveTimings returns the same end of belief and answer timeout that an elector uses', async () => {
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
