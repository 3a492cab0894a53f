import { expect, test } from 'vitest'
import { Elector, memoryStore, TenureError, type ElectionEvent, type LeaseStore } from '../../../src/index.ts'
import { fakeClock } from '../../../../testing/src/index.ts'

/** An elector on a memory store whose `examine` is this function. */
function scene(examine: NonNullable<LeaseStore['examine']>, leaseDurationMs = 15_000) {
  const clock = fakeClock()
  const events: ElectionEvent[] = []
  const calls: { election: string; signal: AbortSignal }[] = []
  const store: LeaseStore = {
    ...memoryStore({ clock }),
    examine(election, options) {
      calls.push({ election, signal: options.signal })
      return examine(election, options)
    },
  }
  const observer = { onEvent: (event: ElectionEvent) => void events.push(event) }
  const elector = new Elector({ store, election: 'e', identity: 'a', leaseDurationMs, clock, observer })
  const errors = () => events.flatMap((event) => (event.type === 'error' ? [event.error] : []))
  return { clock, calls, elector, errors }
}

/** The default delay before diagnostics: half of the retry interval, and also the longest delay. */
const lullMs = 1_000
const finding = new TenureError('MISSING_RIGHT', 'a may not update')

test('a diagnostic of the store is reported once when an elector starts, and has no other effect', async () => {
  const { clock, calls, elector, errors } = scene(async () => [finding])
  expect(calls).toEqual([])
  elector.start()
  await clock.advance(0)
  await clock.advance(lullMs - 1)
  expect([elector.isLeader(), calls]).toEqual([true, []])
  await clock.advance(1)
  expect(errors()).toEqual([finding])
  expect(elector.explain().lastErrors).toEqual([{ at: clock.wallMs(), message: finding.message }])
  await clock.advance(3_600_000)
  expect(elector.isLeader()).toBe(true)
  expect([errors(), calls.map(({ election }) => election)]).toEqual([[finding], ['e']])
  await elector.stop()
})

test.each([
  [3_000, 200],
  [600_000, lullMs],
])('with a lease of %i ms diagnostics run %i ms after the first answer', async (leaseDurationMs, afterMs) => {
  const { clock, calls, elector } = scene(async () => [], leaseDurationMs)
  elector.start()
  await clock.advance(0)
  await clock.advance(afterMs - 1)
  expect(calls).toHaveLength(0)
  await clock.advance(1)
  expect(calls).toHaveLength(1)
  await elector.stop()
})

test('a diagnose call that hangs delays nothing, and its signal aborts when the elector stops', async () => {
  const { clock, calls, elector, errors } = scene(() => new Promise(() => undefined))
  elector.start()
  await clock.advance(0)
  expect(elector.isLeader()).toBe(true)
  await clock.advance(3_600_000)
  expect(elector.isLeader()).toBe(true)
  expect(calls[0]?.signal.aborted).toBe(false)
  await elector.stop()
  expect(calls[0]?.signal.aborted).toBe(true)
  expect([errors(), clock.timers]).toEqual([[], 0])
})

test('a failed diagnose call is not reported, because the campaign uses the same store', async () => {
  const failures: NonNullable<LeaseStore['examine']>[] = [
    () => Promise.reject(new Error('no')),
    () => {
      throw new Error('no')
    },
    () => Promise.resolve(undefined as never),
  ]
  for (const failure of failures) {
    const { clock, elector, errors } = scene(failure)
    elector.start()
    await clock.advance(lullMs)
    expect([elector.isLeader(), errors()]).toEqual([true, []])
    await elector.stop()
  }
})

test('a diagnostic that arrives after the elector has stopped is not reported', async () => {
  let answer: (found: readonly Error[]) => void = () => undefined
  const { clock, elector, errors } = scene(() => new Promise((resolve) => (answer = resolve)))
  elector.start()
  await clock.advance(lullMs)
  await elector.stop()
  answer([finding])
  await clock.advance(0)
  expect(errors()).toEqual([])
})

test('an elector that stops before or soon after its start runs no diagnostics and leaves no timer', async () => {
  for (const signal of [AbortSignal.abort(), undefined]) {
    const { clock, elector, calls } = scene(async () => [finding])
    elector.start({ signal })
    await clock.advance(0)
    await elector.stop()
    expect(clock.timers).toBe(0)
    await clock.advance(3_600_000)
    expect(calls).toEqual([])
  }
})
