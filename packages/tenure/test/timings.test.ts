import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Elector, memoryStore } from '../src/index.ts'
import { resolveTimings, type TimingOptions } from '../src/timings.ts'

const durations = [
  'leaseDurationMs',
  'renewIntervalMs',
  'renewDeadlineMs',
  'retryIntervalMs',
  'drainTimeoutMs',
] as const
const nonsense = [
  -1,
  Number.NaN,
  Infinity,
  -Infinity,
  JSON.parse('1e400'),
  2 ** 31,
  1e-9,
  '15',
  '',
  {},
  [15_000],
  15n,
  true,
]

function construct(options: object): () => Elector {
  return () => new Elector({ store: memoryStore(), election: 'jobs', ...options })
}

function expectRefusal(options: object, text: string): void {
  expect(construct(options)).toThrow(TypeError)
  expect(construct(options)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION', retryable: false }))
  expect(construct(options)).toThrow(text)
}

describe('the constructor refuses by name', () => {
  // A drain may last no time at all, so any number from 0 on will do there.
  const cases = durations.flatMap((option) =>
    nonsense
      .filter((value) => option !== 'drainTimeoutMs' || value !== 1e-9)
      .concat(option === 'drainTimeoutMs' ? [] : [0])
      .map((value) => [option, value] as const),
  )
  test.each(cases)('a %s of %o (A10)', (option, value) => {
    expectRefusal({ [option]: value }, `Option "${option}" is`)
  })

  test.each([0, -0.01, 1, Number.NaN, Infinity, '0', null])('a driftRatio of %o', (driftRatio) => {
    expectRefusal({ driftRatio }, 'Option "driftRatio" is')
  })

  test.each([1, 0, -1, 2.5, Number.NaN, '3'])('a maxFailedRenewals of %o', (maxFailedRenewals) => {
    expectRefusal({ maxFailedRenewals }, 'Option "maxFailedRenewals" is')
  })
})

describe('timings that cannot be safe are refused with the rule (A11)', () => {
  test('a renewal interval longer than the lease', () => {
    expectRefusal({ renewIntervalMs: 20_000 }, 'at least renewIntervalMs + retryIntervalMs (20000 + 2000)')
  })

  test('a deadline that leaves no second try', () => {
    expectRefusal({ renewDeadlineMs: 6_000 }, 'at least renewIntervalMs + retryIntervalMs (5000 + 2000)')
  })

  test('a deadline that leaves two renewals no time to be answered', () => {
    const timings = { renewIntervalMs: 9_800, renewDeadlineMs: 10_000, retryIntervalMs: 100 }
    expectRefusal(timings, 'at least renewIntervalMs + leaseDurationMs / 50 (9800 + 300)')
  })

  test('a deadline as long as the lease', () => {
    expectRefusal({ renewDeadlineMs: 15_000 }, 'with leaseDurationMs 15000 and driftRatio 0.01 at most 13952')
  })

  test('clocks so wrong that nothing is left of the lease', () => {
    expectRefusal({ driftRatio: 0.5 }, 'driftRatio 0.5')
  })
})

test('one number is enough: the rest is a third, two thirds and two fifteenths of it', () => {
  expect(resolveTimings({})).toMatchObject({
    leaseDurationMs: 15_000,
    renewIntervalMs: 5_000,
    renewDeadlineMs: 10_000,
    retryIntervalMs: 2_000,
    driftRatio: 0.01,
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
      const { leaseDurationMs, renewDeadlineMs, driftRatio } = timings
      expect(renewDeadlineMs / (1 - driftRatio)).toBeLessThan(leaseDurationMs / (1 + driftRatio))
    }),
    { numRuns: 2_000 },
  )
  expect(accepted).toBeGreaterThan(10)
})
