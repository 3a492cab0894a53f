import { describe, expect, test } from 'vitest'
import { Elector, memoryStore, type ElectionEvent, type LeaseRecord, type LeaseStore } from '../../../src/index.ts'
import { fakeClock } from '../../../../testing/src/index.ts'

/** An elector on a store that distorts the records that it returns. */
function scene(distort: (record: LeaseRecord, verb: string) => LeaseRecord) {
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  const events: ElectionEvent[] = []
  const calls: string[] = []
  const through = async <T extends { record?: LeaseRecord }>(verb: string, answer: Promise<T>): Promise<T> => {
    calls.push(verb)
    const outcome = await answer
    return outcome.record ? { ...outcome, record: distort(outcome.record, verb) } : outcome
  }
  const { watch: _watch, ...polled } = memory
  const store: LeaseStore = {
    ...polled,
    read: async (election, call) => {
      calls.push('read')
      const record = await memory.read(election, call)
      return record && distort(record, 'read')
    },
    acquire: (claim, call) => through('acquire', memory.acquire(claim, call)),
    renew: (claim, call) => through('renew', memory.renew(claim, call)),
  }
  const observer = { onEvent: (event: ElectionEvent) => void events.push(event) }
  const make = (identity: string, more: Partial<LeaseStore> = {}) =>
    new Elector({ store: { ...store, ...more }, election: 'e', identity, clock, observer })
  return { clock, memory, events, calls, make }
}

const errorCodes = (events: readonly ElectionEvent[]) =>
  events.flatMap((event) => (event.type === 'error' ? [(event.error as { code?: string }).code] : []))

describe('a record with an invalid duration', () => {
  test.each([NaN, Infinity, -1, -Infinity])(
    'an acquire fails when its record has the invalid duration %d',
    async (leaseDurationMs) => {
      const { clock, make, events, calls } = scene((record) => ({ ...record, leaseDurationMs }))
      const elector = make('a')
      elector.start()
      await clock.advance(60_000)
      expect(elector.isLeader()).toBe(false)
      expect(new Set(errorCodes(events))).toEqual(new Set(['RECORD_INVALID']))
      expect(calls.length).toBeLessThan(120)
      void elector.stop()
      await clock.advance(60_000)
      expect(clock.timers).toBe(0)
    },
  )

  test.each([NaN, Infinity, -1])(
    'a read with the invalid duration %d does not resolve an acquire',
    async (leaseDurationMs) => {
      const { clock, make, memory, calls } = scene((record, verb) =>
        verb === 'read' ? { ...record, leaseDurationMs } : record,
      )
      const lost: LeaseStore['acquire'] = async (claim, call) => {
        await memory.acquire(claim, call)
        throw new Error('the answer was lost')
      }
      const elector = make('a', { acquire: lost })
      elector.start()
      await clock.advance(14_000)
      expect(elector.isLeader()).toBe(false)
      expect(calls.filter((verb) => verb === 'renew')).toEqual([])
      void elector.stop()
      await clock.advance(60_000)
    },
  )

  test('the signal aborts in time when a renewal returns a record with an invalid duration', async () => {
    let broken = false
    const { clock, make, calls } = scene((record) => (broken ? { ...record, leaseDurationMs: NaN } : record))
    const elector = make('a')
    elector.start()
    await clock.advance(0)
    const { signal } = await elector.waitForLeadership()
    broken = true
    calls.length = 0
    await clock.advance(10_001)
    expect(signal.aborted).toBe(true)
    expect(calls.length).toBeLessThan(10)
    void elector.stop()
    await clock.advance(60_000)
  })
})

describe('a record with a duration of zero', () => {
  test('a record with a duration of zero grants no leadership, neither in an answer nor in a read', async () => {
    const { clock, make, memory, events } = scene((record) => ({ ...record, leaseDurationMs: 0 }))
    const elector = make('a')
    elector.start()
    for (let second = 0; second < 40; second += 1) {
      await clock.advance(1_000)
      expect(elector.isLeader()).toBe(false)
    }
    expect(errorCodes(events)).toContain('RECORD_INVALID')
    // The elector releases its grant, so that others need not wait.
    const record = await memory.read('e', { signal: new AbortController().signal })
    expect(record?.term).toBeGreaterThan(1)
    void elector.stop()
    await clock.advance(60_000)
  })

  test('a standby still waits for a leader whose record has a duration of zero', async () => {
    const { clock, make, memory } = scene((record) =>
      record.holder === 'other' ? { ...record, leaseDurationMs: 0 } : record,
    )
    const call = { signal: new AbortController().signal }
    const claim = { election: 'e', holder: 'other', attempt: 'x', leaseDurationMs: 1_000, afterTerm: 0, metadata: {} }
    await memory.acquire(claim, call)
    const elector = make('a')
    elector.start()
    await clock.advance(0)
    expect(elector.isLeader()).toBe(false)
    await clock.advance(20_000)
    expect(elector.isLeader()).toBe(true)
    void elector.stop()
    await clock.advance(60_000)
  })
})

test('a grant lasts no longer than the duration that its record shows to others', async () => {
  const { clock, make } = scene((record) => ({ ...record, leaseDurationMs: 3_000 }))
  const elector = make('a')
  elector.start()
  await clock.advance(0)
  const leadership = await elector.waitForLeadership()
  expect(leadership.remainingMs()).toBeLessThanOrEqual(2_000)
  void elector.stop()
  await clock.advance(60_000)
})
