import { expect, test } from 'vitest'
import { Elector, memoryStore } from '../../src/index.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { resolveTimings } from '../../src/engine/timings.ts'
import { faultyStore } from '../faulty-store.ts'

test('a store timeout is reported in whole milliseconds', async () => {
  const clock = fakeClock()
  const store = faultyStore(memoryStore({ clock }), clock)
  store.fault = () => 'request-lost'
  const errors: string[] = []
  const elector = new Elector({
    store,
    election: 'jobs',
    // Two fifths of this duration are not a whole number.
    leaseDurationMs: 5_001,
    clock,
    observer: { onEvent: (event) => void (event.type === 'error' && errors.push(String(event.error))) },
  })
  elector.start()
  await clock.advance(4_000)
  const stopped = elector.stop()
  await clock.advance(20_000)
  await stopped
  expect(errors[0]).toMatch(/The store did not answer "acquire" for "jobs" within 2001 ms\.$/)
})

test('invalid timings are reported with at most one digit after the decimal point', () => {
  for (const options of [{ renewIntervalMs: 9_200 }, { renewDeadlineMs: 3_400, retryIntervalMs: 3_400 }]) {
    expect(() => resolveTimings({ leaseDurationMs: 10_000, ...options })).toThrow(/renew(Deadline|Interval)Ms/)
    expect(() => resolveTimings({ leaseDurationMs: 10_000, ...options })).not.toThrow(/(?<!driftRatio )\d\.\d\d/)
  }
})
