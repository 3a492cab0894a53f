import fc from 'fast-check'
import { expect, test } from 'vitest'
import * as library from '../../src/index.ts'
import * as kubernetes from '../../src/api/kubernetes.ts'
import { LeaderElector } from '../../src/api/leader-elector.ts'
import { timingsLikeClientGo } from '../../src/api/leader-elector-options.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { timingsOf } from '../../src/engine/timings.ts'

const good = {
  store: memoryStore(),
  leaseName: 'my-app',
  leaseNamespace: 'default',
  identity: 'pod-a',
  callbacks: { onStartedLeading: () => undefined },
}
const make = (more: object) => () => new LeaderElector({ ...good, ...more })

test.each([undefined, ''])('an error about the identity %j mentions POD_NAME and the downward API', (identity) => {
  expect(make({ identity })).toThrow(
    expect.objectContaining({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(
        /^Option "identity" is .* in a pod, use POD_NAME, set by the downward API \(metadata\.name\)\.$/,
      ),
    }),
  )
})

test.each([
  ['leaseDuration', 'leaseDurationMs'],
  ['LeaseDuration', 'leaseDurationMs'],
  ['renewDeadline', 'renewDeadlineMs'],
  ['RenewDeadline', 'renewDeadlineMs'],
  ['retryPeriod', 'retryPeriodMs'],
  ['RetryPeriod', 'retryPeriodMs'],
  ['ReleaseOnCancel', 'releaseOnCancel'],
  ['Callbacks', 'callbacks'],
  ['Identity', 'identity'],
])('an error about the client-go option %s suggests %s', (name, meant) => {
  expect(make({ [name]: 1 })).toThrow(`LeaderElector has no option "${name}". Did you mean "${meant}"?`)
})

test.each(['OnStartedLeading', 'OnStoppedLeading', 'OnNewLeader'])(
  'an error about the Go name of a callback suggests the right name: %s',
  (name) => {
    const meant = `${name[0]?.toLowerCase()}${name.slice(1)}`
    const callbacks = { ...good.callbacks, [name]: () => undefined }
    expect(make({ callbacks })).toThrow(`callbacks has no option "${name}". Did you mean "${meant}"?`)
  },
)

test('an error about an unknown option lists all options when none is similar', () => {
  expect(make({ watchDog: {} })).toThrow(
    /^LeaderElector has no option "watchDog"\. It takes store, leaseName, leaseNamespace, /,
  )
})

test('tenure and tenure/kubernetes export the same LeaderElector', () => {
  expect(kubernetes.LeaderElector).toBe(library.LeaderElector)
})

/** The engine's timings for the options of a LeaderElector. */
const timings = (given: object = {}) => timingsOf(timingsLikeClientGo({ ...good, leaseDurationMs: 15_000, ...given }))

test("a longer lease alone keeps client-go's deadline of 10 s and retry period of 2 s", () => {
  const usual = { renewIntervalMs: 2_000, renewDeadlineMs: 12_000, retryIntervalMs: 2_000 }
  expect(timings()).toMatchObject(usual)
  expect(timings({ leaseDurationMs: 60_000 })).toMatchObject(usual)
  expect(timings({ leaseDurationMs: 12_000 })).toMatchObject({ retryIntervalMs: 2_000, renewIntervalMs: 2_000 })
})

test('a lease that is too short for a deadline of 10 s or retries every 2 s gets shorter timings', () => {
  const ofTen = timings({ leaseDurationMs: 10_000 })
  expect(ofTen).toMatchObject({ retryIntervalMs: 2_000, renewIntervalMs: 2_000 })
  expect(ofTen.renewDeadlineMs).toBeLessThan(9_303)
  expect(timings({ leaseDurationMs: 3_000 })).toMatchObject({ retryIntervalMs: 400, renewIntervalMs: 400 })
})

test('a long retryPeriodMs raises the default deadline, but not a given renewDeadlineMs', () => {
  expect(make({ retryPeriodMs: 9_000 })).not.toThrow()
  expect(make({ retryPeriodMs: 9_000, renewDeadlineMs: 10_000 })).toThrow(
    /"retryPeriodMs" is 9000.*\(10000\).*1\.2 times/,
  )
})

test('a LeaderElector accepts all timings that can be completed to a safe set', () => {
  const given = fc.integer({ min: 100, max: 2_000_000 }).chain((leaseDurationMs) => {
    const ms = fc.double({ min: 1, max: leaseDurationMs, noNaN: true })
    const fields = { renewDeadlineMs: ms, retryPeriodMs: ms, renewIntervalMs: ms }
    return fc.record(
      { leaseDurationMs: fc.constant(leaseDurationMs), ...fields },
      { requiredKeys: ['leaseDurationMs'] },
    )
  })
  const seen = { accepted: 0, refused: 0 }
  fc.assert(
    fc.property(given, (numbers) => {
      const { leaseDurationMs: lease, retryPeriodMs: retry = 1, renewIntervalMs: interval = 1 } = numbers
      const latestMs = (lease * 0.99) / 1.01 - lease / 20
      const deadlineMs = numbers.renewDeadlineMs ?? latestMs
      const fromSuccessMs = Math.max(deadlineMs, Math.min(interval + deadlineMs, latestMs))
      const canBeSafe =
        deadlineMs <= latestMs && deadlineMs >= 1.2 * retry && fromSuccessMs >= interval + Math.max(retry, lease / 50)
      if (canBeSafe) {
        seen.accepted += 1
        const { renewDeadlineMs } = timings(numbers)
        expect(renewDeadlineMs).toBeLessThanOrEqual(latestMs)
      } else {
        seen.refused += 1
        expect(() => timings(numbers)).toThrow(TypeError)
      }
    }),
    { numRuns: 3_000 },
  )
  expect(Math.min(seen.accepted, seen.refused)).toBeGreaterThan(300)
})
