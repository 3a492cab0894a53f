import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { StoreHealth } from '../../src/run/store-health.ts'

const timeoutMs = 30_000

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function watched() {
  const told: string[] = []
  let isHeld = false
  let isReadable = false
  const health = new StoreHealth({
    timeoutMs,
    isHeld: () => isHeld,
    look: () => (isReadable ? Promise.resolve() : Promise.reject(new Error('unreadable'))),
    onUnusable: (text) => told.push(text),
  })
  return {
    health,
    told,
    hold: (held: boolean) => (isHeld = held),
    readable: (is: boolean) => (isReadable = is),
    /** Reports a failed call. Resolves when the read that follows it has finished. */
    fails: async (verb: 'read' | 'acquire' | 'renew' | 'release', why = 'EACCES') => {
      health.note({ verb, result: 'failed' }, why)
      await vi.advanceTimersByTimeAsync(0)
    },
    answers: (verb: 'read' | 'acquire' | 'renew' | 'release', result: 'ok' | 'refused' = 'ok') =>
      health.note({ verb, result }, undefined),
  }
}

describe('when a store counts as unusable', () => {
  test('a store is unusable when it has not answered since the start', async () => {
    const { told, fails } = watched()
    await fails('acquire', 'ECONNREFUSED')
    await fails('read', 'ECONNREFUSED')
    vi.advanceTimersByTime(timeoutMs - 1)
    expect(told).toEqual([])
    vi.advanceTimersByTime(1)
    expect(told).toEqual(['The store has not answered within 30s. ECONNREFUSED'])
  })

  test('a store is unusable when no call has returned at all', () => {
    const { told } = watched()
    vi.advanceTimersByTime(timeoutMs)
    expect(told).toEqual(['The store has not answered within 30s. No call has returned.'])
  })

  test('a store is unusable when it can be read but not written from the start', async () => {
    const { told, fails, answers, readable } = watched()
    readable(true)
    for (let tries = 0; tries < 20; tries += 1) {
      await fails('acquire')
      vi.advanceTimersByTime(1_000)
      answers('read')
      vi.advanceTimersByTime(1_000)
    }
    expect(told).toEqual(['The store can be read, but no write has succeeded for 30s. EACCES'])
  })

  test('a store that was writable becomes unusable when only reads have succeeded for the timeout', async () => {
    const { told, fails, answers, readable } = watched()
    answers('acquire')
    vi.advanceTimersByTime(10 * timeoutMs)
    readable(true)
    // An elector with a lease to release does not read.
    await fails('renew')
    await fails('release')
    vi.advanceTimersByTime(timeoutMs - 1)
    expect(told).toEqual([])
    vi.advanceTimersByTime(1)
    expect(told).toHaveLength(1)
  })

  test('a store is unusable when it refuses a lease although nobody holds one', async () => {
    const { told, fails, answers } = watched()
    await fails('acquire')
    answers('acquire', 'refused')
    vi.advanceTimersByTime(timeoutMs)
    expect(told).toHaveLength(1)
  })
})

describe('when a store counts as usable', () => {
  test.each(['acquire', 'renew', 'release'] as const)('a store is usable after a successful %s', async (verb) => {
    const { told, fails, answers, readable } = watched()
    readable(true)
    await fails('acquire')
    answers('read')
    answers(verb)
    vi.advanceTimersByTime(10 * timeoutMs)
    expect(told).toEqual([])
  })

  test('a store is usable after any answer if no write has ever failed', () => {
    const { told, health, answers } = watched()
    expect(health.hasAnswered).toBe(false)
    answers('acquire', 'refused')
    expect(health.hasAnswered).toBe(true)
    vi.advanceTimersByTime(10 * timeoutMs)
    expect(told).toEqual([])
  })

  test('a store is usable for a standby whose first write failed and which then sees another leader', async () => {
    const { told, fails, answers, hold, readable } = watched()
    readable(true)
    await fails('acquire')
    hold(true)
    answers('read')
    vi.advanceTimersByTime(10 * timeoutMs)
    expect(told).toEqual([])
  })

  test('a store is usable for a leader, and for a standby that sees another leader only by a watch', async () => {
    const { told, fails, hold, readable } = watched()
    readable(true)
    await fails('acquire')
    hold(true)
    vi.advanceTimersByTime(10 * timeoutMs)
    expect(told).toEqual([])
  })

  test('a store that has answered before stays usable while it answers neither reads nor writes', async () => {
    const { told, fails, answers, readable } = watched()
    answers('acquire')
    readable(true)
    await fails('renew')
    readable(false)
    for (let tries = 0; tries < 100; tries += 1) {
      await fails('acquire')
      vi.advanceTimersByTime(1_000)
    }
    // The store is back. The next write gets the full timeout.
    readable(true)
    await fails('acquire')
    vi.advanceTimersByTime(timeoutMs - 1)
    answers('acquire')
    vi.advanceTimersByTime(10 * timeoutMs)
    expect(told).toEqual([])
  })
})

test('StoreHealth reports nothing after close, even when a read was in flight', async () => {
  const { told, health, fails, answers, readable } = watched()
  answers('acquire')
  readable(true)
  const looked = fails('renew')
  health.close()
  await looked
  vi.advanceTimersByTime(10 * timeoutMs)
  expect(told).toEqual([])
})
