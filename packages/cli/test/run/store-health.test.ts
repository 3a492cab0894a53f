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
    /** Resolves when the look that follows is over. */
    fails: async (verb: 'read' | 'acquire' | 'renew' | 'release', why = 'EACCES') => {
      health.note({ verb, result: 'failed' }, why)
      await vi.advanceTimersByTimeAsync(0)
    },
    answers: (verb: 'read' | 'acquire' | 'renew' | 'release', result: 'ok' | 'refused' = 'ok') =>
      health.note({ verb, result }, undefined),
  }
}

describe('a store counts as unusable', () => {
  test('when nothing has answered from the start', async () => {
    const { told, fails } = watched()
    await fails('acquire', 'ECONNREFUSED')
    await fails('read', 'ECONNREFUSED')
    vi.advanceTimersByTime(timeoutMs - 1)
    expect(told).toEqual([])
    vi.advanceTimersByTime(1)
    expect(told).toEqual(['The store has not answered within 30s. ECONNREFUSED'])
  })

  test('when no call has come back at all', () => {
    const { told } = watched()
    vi.advanceTimersByTime(timeoutMs)
    expect(told).toEqual(['The store has not answered within 30s. No call has returned.'])
  })

  test('when it can be read from the start, and not written', async () => {
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

  test('when it could be written before, and can only be read for that long', async () => {
    const { told, fails, answers, readable } = watched()
    answers('acquire')
    vi.advanceTimersByTime(10 * timeoutMs)
    readable(true)
    // As an elector does that has a lease to give back: it reads nothing.
    await fails('renew')
    await fails('release')
    vi.advanceTimersByTime(timeoutMs - 1)
    expect(told).toEqual([])
    vi.advanceTimersByTime(1)
    expect(told).toHaveLength(1)
  })

  test('although it refuses without anybody holding a lease', async () => {
    const { told, fails, answers } = watched()
    await fails('acquire')
    answers('acquire', 'refused')
    vi.advanceTimersByTime(timeoutMs)
    expect(told).toHaveLength(1)
  })
})

describe('a store counts as usable', () => {
  test.each(['acquire', 'renew', 'release'] as const)('after a write that succeeded: %s', async (verb) => {
    const { told, fails, answers, readable } = watched()
    readable(true)
    await fails('acquire')
    answers('read')
    answers(verb)
    vi.advanceTimersByTime(10 * timeoutMs)
    expect(told).toEqual([])
  })

  test('after an answer, if no write has ever failed', () => {
    const { told, health, answers } = watched()
    expect(health.hasAnswered).toBe(false)
    answers('acquire', 'refused')
    expect(health.hasAnswered).toBe(true)
    vi.advanceTimersByTime(10 * timeoutMs)
    expect(told).toEqual([])
  })

  test('to a standby whose first try failed, and which then only sees another one lead', async () => {
    const { told, fails, answers, hold, readable } = watched()
    readable(true)
    await fails('acquire')
    hold(true)
    answers('read')
    vi.advanceTimersByTime(10 * timeoutMs)
    expect(told).toEqual([])
  })

  test('to a standby that sees another one lead by a watch alone, and to one that leads', async () => {
    const { told, fails, hold, readable } = watched()
    readable(true)
    await fails('acquire')
    hold(true)
    vi.advanceTimersByTime(10 * timeoutMs)
    expect(told).toEqual([])
  })

  test('while it answers nothing at all, after it has answered', async () => {
    const { told, fails, answers, readable } = watched()
    answers('acquire')
    readable(true)
    await fails('renew')
    readable(false)
    for (let tries = 0; tries < 100; tries += 1) {
      await fails('acquire')
      vi.advanceTimersByTime(1_000)
    }
    // It is back. The write that follows is given its time.
    readable(true)
    await fails('acquire')
    vi.advanceTimersByTime(timeoutMs - 1)
    answers('acquire')
    vi.advanceTimersByTime(10 * timeoutMs)
    expect(told).toEqual([])
  })
})

test('nothing is told after the end, even if a look was under way', async () => {
  const { told, health, fails, answers, readable } = watched()
  answers('acquire')
  readable(true)
  const looked = fails('renew')
  health.close()
  await looked
  vi.advanceTimersByTime(10 * timeoutMs)
  expect(told).toEqual([])
})
