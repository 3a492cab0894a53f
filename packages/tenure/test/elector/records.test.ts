import { describe, expect, test } from 'vitest'
import { Elector, memoryStore, type ElectionEvent, type LeaseRecord, type LeaseStore } from '../../src/index.ts'
import { fakeClock } from '../../src/testing/index.ts'

/** An elector on a store that distorts what it shows. */
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

describe('a record with a duration that makes no sense', () => {
  test.each([NaN, Infinity, -1, -Infinity])('is no answer to an acquire: %d', async (leaseDurationMs) => {
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
  })

  test.each([NaN, Infinity, -1])('founds nothing when a read resolves an acquire: %d', async (leaseDurationMs) => {
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
  })

  test('does not keep the signal from aborting when a renewal shows it', async () => {
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

describe('a record without a duration', () => {
  test('founds no grant, neither by an answer nor by a read', async () => {
    const { clock, make, memory, events } = scene((record) => ({ ...record, leaseDurationMs: 0 }))
    const elector = make('a')
    elector.start()
    for (let second = 0; second < 40; second += 1) {
      await clock.advance(1_000)
      expect(elector.isLeader()).toBe(false)
    }
    expect(errorCodes(events)).toContain('RECORD_INVALID')
    // What it was granted all the same is given back, so that others need not wait.
    const record = await memory.read('e', { signal: new AbortController().signal })
    expect(record?.term).toBeGreaterThan(1)
    void elector.stop()
    await clock.advance(60_000)
  })

  test('is waited for by others as long as they know of', async () => {
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

test('a grant is believed in for no longer than its record shows others', async () => {
  const { clock, make } = scene((record) => ({ ...record, leaseDurationMs: 3_000 }))
  const elector = make('a')
  elector.start()
  await clock.advance(0)
  const leadership = await elector.waitForLeadership()
  expect(leadership.remainingMs()).toBeLessThanOrEqual(2_000)
  void elector.stop()
  await clock.advance(60_000)
})
