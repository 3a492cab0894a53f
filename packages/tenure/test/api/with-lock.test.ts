import { describe, expect, test } from 'vitest'
import { casStore, isTenureError, memoryStore, ttlStore, withLock, type VersionedValue } from '../../src/index.ts'
import { memoryTtlStorage } from '../../src/store-kit/memory-ttl-storage.ts'
import type { ElectionEvent, HeldLock, LockOptions } from '../../src/index.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { cutOff, faultyStore } from '../faulty-store.ts'
import { call, follow } from '../promise-outcome.ts'

/** A store whose candidates decide expiry, and locks of several processes, each on its own connection. */
function scene() {
  const clock = fakeClock()
  const values = new Map<string, VersionedValue>()
  const store = casStore(
    {
      get: async (key) => values.get(key),
      async putIfVersion(key, value, version) {
        if (values.get(key)?.version !== version) return undefined
        const next = String(Number(version ?? 0) + 1)
        values.set(key, { value, version: next })
        return next
      },
    },
    { clock },
  )
  const observer = { onEvent: () => undefined }
  const pause = (ms: number) => new Promise<void>((resolve) => void clock.setTimer(ms, resolve))
  return {
    clock,
    store,
    pause,
    isReleased: async () => (await store.read('import', call))?.released,
    member(identity: string) {
      const link = faultyStore(store, clock)
      return {
        link,
        lock: <T>(work: (lock: HeldLock) => Promise<T> | T, options: LockOptions = {}) =>
          follow(withLock(link, 'import', work, { identity, clock, observer, ...options })),
      }
    },
  }
}

describe('withLock', () => {
  test('withLock runs the work of one process at a time, with rising terms, and returns its result', async () => {
    const { clock, pause, member, isReleased } = scene()
    let inside = 0
    let most = 0
    const calls = ['a', 'b', 'c'].map((name) =>
      member(name).lock(async ({ term }) => {
        most = Math.max(most, ++inside)
        await pause(3_000)
        inside -= 1
        return { name, term }
      }),
    )
    await clock.advance(40_000)
    expect(most).toBe(1)
    const results = calls.map(({ value }) => value)
    expect(results.map((result) => result?.name)).toEqual(['a', 'b', 'c'])
    expect(results.map((result) => result?.term).toSorted()).toEqual([1, 2, 3])
    expect(await isReleased()).toBe(true)
    expect(clock.timers).toBe(0)
  })

  test('withLock rejects with LOCK_TIMEOUT when another process still holds the lock after waitMs', async () => {
    const { clock, pause, member } = scene()
    const holder = member('a').lock(() => pause(60_000))
    await clock.advance(1_000)
    const waiting = member('b').lock(() => expect.unreachable('the lock was granted twice'), { waitMs: 8_000 })
    await clock.advance(7_900)
    expect(waiting.state).toBe('pending')
    await clock.advance(200)
    expect(waiting).toMatchObject({ state: 'rejected', error: { code: 'LOCK_TIMEOUT', retryable: true } })
    expect(String(waiting.error)).toMatch(/"import" was not obtained within 8000 ms: "a" holds it in term 1/)
    await clock.advance(60_000)
    expect(holder.state).toBe('resolved')
    expect(clock.timers).toBe(0)
  })

  test('withLock with waitMs 0 asks the store once and rejects with LOCK_TIMEOUT', async () => {
    const { clock, pause, member } = scene()
    member('a').lock(() => pause(60_000))
    await clock.advance(1_000)
    const { link, lock } = member('b')
    const tried = lock(() => expect.unreachable('the lock was granted twice'), { waitMs: 0 })
    await clock.advance(0)
    expect(tried).toMatchObject({ state: 'rejected', error: { code: 'LOCK_TIMEOUT' } })
    expect(link.calls.map(({ verb }) => verb)).toEqual(['acquire'])
  })

  test('withLock waits for two lease durations by default, and without a limit when waitMs is Infinity', async () => {
    const { clock, pause, member } = scene()
    member('a').lock(() => pause(600_000))
    await clock.advance(100)
    const usual = member('b').lock(() => 'obtained', { leaseDurationMs: 6_000 })
    const patient = member('c').lock(() => 'obtained', { waitMs: Infinity })
    await clock.advance(11_900)
    expect(usual.state).toBe('pending')
    await clock.advance(200)
    expect(usual).toMatchObject({ state: 'rejected', error: { code: 'LOCK_TIMEOUT' } })
    await clock.advance(700_000)
    expect(patient.value).toBe('obtained')
  })

  test('a short wait obtains the lock of a crashed holder after at most one more lease', async () => {
    const { clock, pause, member } = scene()
    const crashed = member('a')
    crashed.lock(() => pause(600_000))
    await clock.advance(7_000)
    cutOff(crashed.link)
    await clock.advance(15_000)
    const waiting = member('b').lock(({ term }) => term, { waitMs: 1_000 })
    await clock.advance(14_000)
    expect(waiting.state).toBe('pending')
    await clock.advance(4_000)
    expect(waiting.value).toBe(2)
  })

  test('withLock aborts the signal on a loss, and rejects only after the work has settled', async () => {
    const { clock, pause, member } = scene()
    const { link, lock } = member('a')
    const seen: unknown[] = []
    const called = lock(async ({ signal }) => {
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
      seen.push(signal.reason)
      await pause(3_000)
      return 'late'
    })
    await clock.advance(100)
    cutOff(link)
    await clock.advance(11_000)
    expect(seen).toMatchObject([{ code: 'LEADERSHIP_LOST', reason: 'expired', term: 1 }])
    expect(called.state).toBe('pending')
    await clock.advance(3_000)
    expect(called).toMatchObject({ state: 'rejected', error: { code: 'LEADERSHIP_LOST' } })
  })

  test('withLock rejects with LEADERSHIP_LOST when the lock is lost before its work could start', async () => {
    const { clock, member } = scene()
    const onEvent = ({ type }: ElectionEvent) => {
      if (type === 'elected') clock.sleep(20_000)
    }
    const called = member('a').lock(() => expect.unreachable('the work was called'), { observer: { onEvent } })
    await clock.advance(100)
    expect(called).toMatchObject({ state: 'rejected', error: { code: 'LEADERSHIP_LOST', reason: 'expired', term: 1 } })
    await clock.advance(0)
    expect(clock.timers).toBe(0)
  })

  test('withLock releases the lock after the work has failed, and rejects with its error', async () => {
    const { clock, member, isReleased } = scene()
    const failure = new Error('disk full')
    const called = member('a').lock(() => Promise.reject(failure))
    await clock.advance(100)
    expect(called.error).toBe(failure)
    expect(await isReleased()).toBe(true)
  })

  test('withLock keeps the lock until aborted work has settled, and rejects with the reason of the signal', async () => {
    const { clock, pause, member, isReleased } = scene()
    const stopping = new AbortController()
    const called = member('a').lock(() => pause(5_000), { signal: stopping.signal })
    await clock.advance(1_000)
    stopping.abort(new Error('shutdown'))
    await clock.advance(3_900)
    expect([called.state, await isReleased()]).toEqual(['pending', false])
    await clock.advance(200)
    expect(called.error).toBe(stopping.signal.reason)
    expect(await isReleased()).toBe(true)
  })

  test('withLock stops waiting when its signal aborts, and never calls its work afterwards', async () => {
    const { clock, pause, member } = scene()
    const holder = member('a').lock(() => pause(5_000))
    await clock.advance(100)
    const stopping = new AbortController()
    const called = member('b').lock(() => expect.unreachable('the work was called'), { signal: stopping.signal })
    await clock.advance(1_000)
    stopping.abort(new Error('shutdown'))
    await clock.advance(0)
    expect(called.error).toBe(stopping.signal.reason)
    await clock.advance(20_000)
    expect(holder.state).toBe('resolved')
    expect(clock.timers).toBe(0)
  })

  test('withLock rejects with the error of the store, not with LOCK_TIMEOUT, when the store does not answer', async () => {
    const { clock, member } = scene()
    const { link, lock } = member('a')
    link.fault = () => 'error'
    const called = lock(() => expect.unreachable('the work was called'), { waitMs: 20_000 })
    await clock.advance(15_900)
    expect(called.state).toBe('pending')
    await clock.advance(5_000)
    expect(called).toMatchObject({ state: 'rejected', error: { code: 'BACKEND_UNAVAILABLE' } })
  })

  test('withLock rejects with the error of a lock that its work could not obtain', async () => {
    const { clock, store, pause, member } = scene()
    const options = { clock, observer: {}, waitMs: 0 }
    follow(withLock(store, 'inner', () => pause(60_000), options))
    await clock.advance(100)
    const outer = member('a').lock(() => withLock(store, 'inner', () => 'obtained', options))
    await clock.advance(100)
    expect(outer.state).toBe('rejected')
    expect(isTenureError(outer.error) && outer.error.message).toMatch(/^The lock "inner" was not obtained at once/)
  })

  test('withLock refuses a store without terms, and arguments that cannot be right', async () => {
    const store = memoryStore()
    const terms = withLock(ttlStore(memoryTtlStorage()), 'import', () => 'done')
    await expect(terms).rejects.toMatchObject({ code: 'TERMS_REQUIRED' })
    for (const waitMs of [-1, Number.NaN, 2 ** 31]) {
      const refused = withLock(store, 'import', () => 'done', { waitMs })
      await expect(refused).rejects.toMatchObject({ code: 'INVALID_OPTION', option: 'waitMs', value: waitMs })
    }
    await expect(withLock(store, '', () => 'done')).rejects.toMatchObject({ code: 'INVALID_OPTION', option: 'name' })
  })
})
