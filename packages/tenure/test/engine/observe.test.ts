import { getEventListeners } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { held } from '../../../testing/src/conformance/scene.ts'
import {
  memoryStore,
  observe,
  ttlStore,
  type AcquireClaim,
  type LeaseRecord,
  type LeaseStore,
  type ObserveOptions,
} from '../../src/index.ts'
import { casStore } from '../../src/store-kit/cas-store.ts'
import { fileStore } from '../../src/stores/file/index.ts'
import { memoryTtlStorage } from '../../src/store-kit/memory-ttl-storage.ts'
import { fakeClock, type FakeClock } from '../../../testing/src/index.ts'
import { CasMap } from '../../../testing/test/conformance/cas-map.ts'
import { faultyStore, refusedConnection, withoutWatch } from '../faulty-store.ts'
import { call, claim, follow, never } from '../promise-outcome.ts'

const lease = 10_000

/** A leader that the test controls step by step. */
function leaderOn(store: LeaseStore) {
  let record: LeaseRecord | undefined
  const take = (outcome: Awaited<ReturnType<LeaseStore['renew']>>) => {
    if (!outcome.ok) throw new Error(`The call was refused: ${JSON.stringify(outcome)}`)
    record = outcome.record
  }
  const own = () => record ?? expect.fail('Nobody leads.')
  return {
    acquire: async (over: Partial<AcquireClaim> = {}) => {
      const next = { afterTerm: record?.term ?? 0, attempt: `a${record?.term ?? 0}`, leaseDurationMs: lease, ...over }
      take(await store.acquire(claim(next), call))
    },
    renew: async () => take(await store.renew(held(own()), call)),
    release: async () => take(await store.release(held(own()), call)),
    takeOver: async (over: Partial<AcquireClaim> = {}) => {
      const next = { afterTerm: own().term, expiredVersion: own().version, attempt: `b${own().term}`, holder: 'next' }
      take(await store.acquire(claim({ leaseDurationMs: lease, ...next, ...over }), call))
    },
  }
}

/** Observes the store and collects the changes. */
function watching(store: LeaseStore, options: ObserveOptions) {
  const controller = new AbortController()
  const shown: string[] = []
  const errors: unknown[] = []
  const items = observe(store, 'e', { signal: controller.signal, onError: (error) => errors.push(error), ...options })
  const done = (async () => {
    for await (const { change, record } of items) shown.push(record ? `${change} ${record.term}` : change)
  })()
  return { shown, errors, done, stop: () => controller.abort(), signal: controller.signal }
}

function scene(kind: 'watched' | 'polled' = 'watched') {
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  const store = faultyStore(memory, clock)
  const leader = leaderOn(memory)
  return { clock, memory, store: kind === 'polled' ? withoutWatch(store) : store, leader }
}

interface Delay {
  readonly beforeMs: number
  readonly afterMs: number
}

/** A store whose reads take a long time, before the request arrives or after the store has answered. */
function slowReads(store: LeaseStore, clock: FakeClock, next: () => Delay | undefined): LeaseStore {
  const wait = (ms: number) => new Promise<void>((resolve) => void clock.setTimer(ms, resolve))
  return {
    ...store,
    read: async (election, options) => {
      const { beforeMs, afterMs } = next() ?? { beforeMs: 0, afterMs: 0 }
      await wait(beforeMs)
      const record = await store.read(election, options)
      await wait(afterMs)
      return record
    },
  }
}

describe.each(['watched', 'polled'] as const)('observing a %s store', (kind) => {
  test('observe yields the current state, then each change with the reason why a term ended', async () => {
    const { clock, memory, store, leader } = scene(kind)
    const { shown } = watching(store, { clock })
    const step = async (change: () => Promise<void> | void) => {
      await change()
      await clock.advance(1_500)
    }
    await step(() => undefined)
    for (const change of [leader.acquire, leader.renew, leader.release, leader.acquire]) await step(change)
    await step(() => memory.delete('e'))
    expect(shown).toEqual(['state', 'elected 1', 'renewed 1', 'released 1', 'elected 2', 'deleted'])
  })

  test('observe reports an expiry only after it has seen the lease for its whole duration', async () => {
    const { clock, store, leader } = scene(kind)
    await leader.acquire()
    const { shown } = watching(store, { clock })
    await clock.advance(4_000)
    await leader.renew()
    // A poll follows after a second, plus up to a fifth of it as jitter.
    const seenWithinMs = kind === 'watched' ? 0 : 1_200
    await clock.advance(seenWithinMs)
    expect(shown).toEqual(['state 1', 'renewed 1'])
    await clock.advance(lease - seenWithinMs - 1)
    expect(shown).toEqual(['state 1', 'renewed 1'])
    await clock.advance(1 + seenWithinMs)
    expect(shown).toEqual(['state 1', 'renewed 1', 'expired 1'])
    await leader.acquire()
    await clock.advance(1_500)
    expect(shown.at(-1)).toBe('elected 2')
  })
})

test('observe reports a renewal after an apparent expiry, and the end of a lease only once', async () => {
  const clock = fakeClock()
  const cas = casStore(new CasMap().backend(), { clock })
  const store = faultyStore(cas, clock)
  const leader = leaderOn(cas)
  await leader.acquire()
  const { shown, errors } = watching(store, { clock, timeoutMs: 1_000 })
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 100) await clock.advance(100)
  }
  await pass(1_000)
  store.fault = () => 'error'
  await pass(lease + 1_000)
  expect(shown).toEqual(['state 1', 'expired 1'])
  expect(errors.length).toBeGreaterThan(2)
  store.fault = () => undefined
  await leader.renew()
  await pass(10_500)
  expect(shown).toEqual(['state 1', 'expired 1', 'renewed 1'])
  await pass(lease)
  await leader.release()
  await pass(2_000)
  expect(shown).toEqual(['state 1', 'expired 1', 'renewed 1', 'expired 1'])
})

test('observe reports a new term as replaced when it did not see the previous one end', async () => {
  const { clock, memory, store, leader } = scene('polled')
  await leader.acquire()
  const { shown } = watching(store, { clock })
  await clock.advance(0)
  await leader.release()
  await leader.takeOver()
  await clock.advance(1_500)
  expect(shown).toEqual(['state 1', 'replaced 2'])
  expect(await memory.read('e', call)).toMatchObject({ holder: 'next' })
})

test('observe reads the store before it reports an expiry when the watch is silent', async () => {
  const { clock, store, leader } = scene()
  store.silentWatch = true
  await leader.acquire()
  const { shown } = watching(store, { clock })
  for (let round = 0; round < 8; round++) {
    await clock.advance(5_000)
    await leader.renew()
  }
  expect(shown.filter((item) => !item.startsWith('renewed'))).toEqual(['state 1'])
  expect(shown.length).toBeGreaterThan(3)
})

describe.each(['silent', 'polled'] as const)('observing a renewed lease (%s)', (kind) => {
  /** A silent watch, or no watch and a poll every 10 s. Either way, the lease is due before the next read. */
  const seldom = (leaseDurationMs: number) => {
    const parts = scene(kind === 'polled' ? 'polled' : 'watched')
    parts.store.silentWatch = true
    const { clock, leader } = parts
    const renewEachSecond = async (seconds: number) => {
      for (let second = 0; second < seconds; second++) {
        await clock.advance(1_000)
        await leader.renew()
      }
    }
    const options = { clock, pollIntervalMs: 10_000 }
    return { ...parts, options, renewEachSecond, acquire: () => leader.acquire({ leaseDurationMs }) }
  }
  const others = (shown: readonly string[]) => shown.filter((item) => !item.startsWith('renewed'))

  test('observe reports no expiry of a renewed lease when answers are slow', async () => {
    const { clock, store, options, renewEachSecond, acquire } = seldom(3_000)
    await acquire()
    const { shown, errors } = watching(
      slowReads(store, clock, () => ({ beforeMs: 550, afterMs: 550 })),
      options,
    )
    await renewEachSecond(60)
    expect(others(shown)).toEqual(['state 1'])
    expect(errors).toEqual([])
    // The observer reads once each time the lease is due.
    expect(shown.length).toBeGreaterThan(12)
  })

  test('observe reports no expiry of a renewed lease when the store fails for a while at the due time', async () => {
    const { store, options, renewEachSecond, acquire } = seldom(3_000)
    await acquire()
    const { shown, errors } = watching(store, { ...options, timeoutMs: 6_000 })
    await renewEachSecond(2)
    store.fault = () => 'error'
    await renewEachSecond(6)
    expect(errors.length).toBeGreaterThan(1)
    store.fault = () => undefined
    await renewEachSecond(4)
    expect(others(shown)).toEqual(['state 1'])
    expect(shown.length).toBeGreaterThan(1)
  })

  test.each(['request-lost', 'error'] as const)(
    'observe reports an expiry when no read succeeds within the timeout (%s)',
    async (fault) => {
      const { clock, store, options, renewEachSecond, acquire } = seldom(3_000)
      await acquire()
      const { shown } = watching(store, { ...options, timeoutMs: 2_500 })
      await clock.advance(0)
      store.fault = () => fault
      await renewEachSecond(5)
      expect(shown).toEqual(['state 1'])
      await renewEachSecond(1)
      expect(shown).toEqual(['state 1', 'expired 1'])
      await renewEachSecond(60)
      expect(shown).toEqual(['state 1', 'expired 1'])
      store.fault = () => undefined
      // Long enough for the last lost call and the longest pause after it.
      await renewEachSecond(13)
      expect(shown.slice(0, 3)).toEqual(['state 1', 'expired 1', 'renewed 1'])
    },
  )

  test('observe does not report an expiry from an answer to a read that was sent before the lease was due', async () => {
    const { clock, store, leader, acquire } = seldom(25_000)
    const delays = [
      { beforeMs: 11_000, afterMs: 0 },
      { beforeMs: 0, afterMs: 11_000 },
    ]
    await acquire()
    const slow = slowReads(store, clock, () => delays.shift())
    const { shown } = watching(slow, { clock, pollIntervalMs: 100_000, timeoutMs: 20_000 })
    await clock.advance(8_000)
    await leader.renew()
    // The renewal is seen at 11 s. The next read is sent at 30 s, the lease is renewed at 31 s and due at 36 s, and the
    // answer arrives at 41 s.
    await clock.advance(23_000)
    await leader.renew()
    await clock.advance(10_000)
    expect(delays).toEqual([])
    expect(shown).toEqual(['state 1', 'renewed 1'])
  })
})

test('observe finds the next leader even when the watch of a free lease is silent', async () => {
  const { clock, store, leader } = scene()
  store.silentWatch = true
  const { shown } = watching(store, { clock })
  await clock.advance(1_000)
  await leader.acquire()
  await clock.advance(30_000)
  expect(shown.slice(0, 2)).toEqual(['state', 'elected 1'])
})

test('observe makes at most one other call every 30 s while a watch is open', async () => {
  const { clock, store } = scene()
  watching(store, { clock })
  await clock.advance(300_000)
  expect(store.calls.length).toBeLessThanOrEqual(11)
})

test('observe reopens a broken watch with growing pauses and misses no change', async () => {
  const { clock, memory, store, leader } = scene()
  const opened: number[] = []
  store.watch = () => {
    opened.push(clock.monotonicMs())
    throw new Error('no watch today')
  }
  const { shown, errors } = watching(store, { clock })
  await clock.advance(60_000)
  expect(opened.length).toBeGreaterThan(4)
  expect(opened.length).toBeLessThan(12)
  expect(errors).toHaveLength(opened.length)
  await leader.acquire()
  await clock.advance(1_500)
  expect(shown).toEqual(['state', 'elected 1'])
  store.watch = (election, options) => memory.watch?.(election, options) ?? expect.fail('The store has no watch.')
  await clock.advance(12_000)
  const before = store.calls.length
  await leader.acquire()
  await clock.advance(0)
  expect(shown.at(-1)).toBe('elected 2')
  expect(store.calls.length).toBe(before)
})

test('observe limits the rate of its retries when a store fails or hangs, and errors do not end it', async () => {
  const { clock, store, leader } = scene('polled')
  store.fault = () => 'error'
  const { shown, errors } = watching(store, { clock, timeoutMs: 2_000 })
  await clock.advance(100_000)
  expect(errors.length).toBeGreaterThan(8)
  expect(errors.length).toBeLessThan(16)
  expect(errors[0]).toBe(refusedConnection)
  store.fault = () => 'request-lost'
  await clock.advance(30_000)
  expect(errors.at(-1)).toMatchObject({ code: 'TIMEOUT', message: expect.stringContaining('within 2000 ms') })
  expect(store.mostOpen).toBe(1)
  store.fault = () => undefined
  await leader.acquire()
  await clock.advance(15_000)
  expect(shown[0]).toBe('state 1')
})

test('observe logs errors without a listener, and a listener that throws does not end it', async () => {
  const { clock, store, leader } = scene('polled')
  const lines: string[] = []
  const log = { info() {}, warn: (line: string) => void lines.push(line), error() {} }
  const warn = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  onTestFinished(() => warn.mockRestore())
  store.fault = () => 'error'
  const { shown } = watching(store, { clock, onError: undefined, log })
  const other = watching(store, { clock, onError: () => expect.fail('mine') })
  // An unhandled rejection would end the process.
  const rejects: () => unknown = () => Promise.reject(new Error('log sink down'))
  watching(store, { clock, onError: rejects })
  await clock.advance(5_000)
  expect(lines).toEqual([`tenure: reading "e" failed: ${refusedConnection.message}`])
  const failed = (why: string) => expect.stringContaining(`The onError callback of observe() for "e" failed: ${why}\n`)
  expect(warn.mock.calls.flat().slice(0, 2)).toEqual([failed('mine'), failed('log sink down')])
  store.fault = () => undefined
  await leader.acquire()
  await clock.advance(10_000)
  expect(lines[1]).toMatch(/the store answers again after .* s \(\d+ calls for "e" failed\)/)
  expect([shown[0], other.shown[0]]).toEqual(['state 1', 'state 1'])
})

test('observe ignores an answer that a newer event has overtaken', async () => {
  const { clock, memory, store, leader } = scene()
  await leader.acquire()
  let answer = (): void => undefined
  const slow: LeaseStore = {
    ...store,
    read: async (election, options) => {
      const record = await memory.read(election, options)
      await new Promise<void>((resolve) => (answer = resolve))
      return record
    },
  }
  const { shown } = watching(slow, { clock, timeoutMs: 60_000 })
  await clock.advance(0)
  answer()
  await clock.advance(lease)
  // The lease is due, so the observer reads it. An event arrives before the answer.
  await leader.acquire()
  await clock.advance(0)
  answer()
  await clock.advance(0)
  expect(shown).toEqual(['state 1', 'replaced 2'])
})

test('observe skips replayed events', async () => {
  const { clock, memory, leader } = scene()
  await leader.acquire()
  const first = await memory.read('e', call)
  await leader.renew()
  const second = await memory.read('e', call)
  const store: LeaseStore = {
    ...memory,
    async *watch() {
      yield* [first, second, first, second, { ...second, term: 0, version: 'older still' } as LeaseRecord]
      await never
    },
  }
  const { shown } = watching(store, { clock })
  await clock.advance(100)
  expect(shown).toEqual(['state 1', 'renewed 1'])
})

test('a slow reader gets the newest state from a bounded queue', async () => {
  const { clock, memory, leader } = scene()
  const items = observe(memory, 'e', { clock })
  onTestFinished(() => void items.return?.())
  expect((await items.next()).value).toMatchObject({ change: 'state', record: undefined })
  await leader.acquire()
  await clock.advance(0)
  for (let renewals = 0; renewals < 100; renewals++) {
    await leader.renew()
    await clock.advance(0)
  }
  await leader.release()
  await clock.advance(0)
  const changes = [(await items.next()).value, (await items.next()).value, (await items.next()).value]
  expect(changes.map((item) => `${item?.change} ${item?.record?.version}`)).toEqual([
    'elected 1',
    'renewed 101',
    'released 102',
  ])
  for (let terms = 0; terms < 100; terms++) {
    await leader.acquire()
    await clock.advance(0)
    await leader.release()
    await clock.advance(0)
  }
  const late: string[] = []
  for (let count = 0; count < 64; count++) {
    const { value } = await items.next()
    late.push(`${value?.change} ${value?.record?.term}`)
    if (value?.record?.term === 101 && value.record.released) break
  }
  expect(late[0]).toMatch(/^state /)
  expect(late.at(-1)).toBe('released 101')
  expect(late.length).toBeLessThanOrEqual(64)
})

describe('the end of observe', () => {
  test('observe ends when its signal aborts, even while it waits, and leaves no timer, call, or listener', async () => {
    const { clock, store } = scene()
    const { done, stop, signal } = watching(store, { clock })
    await clock.advance(100)
    expect(follow(done).state).toBe('pending')
    stop()
    await done
    await clock.advance(0)
    expect(clock.timers).toBe(0)
    expect(store.open).toBe(0)
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  test('observe ends without a call when its signal has already aborted', async () => {
    const { clock, store } = scene()
    const items = observe(store, 'e', { clock, signal: AbortSignal.abort() })
    expect(await items.next()).toEqual({ done: true, value: undefined })
    expect(store.calls).toEqual([])
  })

  test('observe ends when its loop is left, or when the iterator returns while it waits', async () => {
    const { clock, store } = scene('polled')
    for await (const { change } of observe(store, 'e', { clock })) {
      expect(change).toBe('state')
      break
    }
    expect(clock.timers).toBe(0)
    const items = observe(store, 'e', { clock })
    await items.next()
    const waiting = items.next()
    await items.return?.()
    expect(await waiting).toEqual({ done: true, value: undefined })
    expect(clock.timers).toBe(0)
  })

  test('observe ends without waiting for a call that hangs', async () => {
    const { clock, store } = scene('polled')
    store.fault = () => 'request-lost'
    const { done, stop, errors } = watching(store, { clock })
    await clock.advance(10)
    stop()
    await done
    await clock.advance(0)
    expect([clock.timers, store.open, errors.length]).toEqual([0, 0, 0])
  })
})

test('remainingMs counts the lease duration from the first observation, unless the store reports the remaining time', async () => {
  const { clock, memory, store, leader } = scene('polled')
  await leader.acquire()
  await clock.advance(4_000)
  const left = async (from: LeaseStore) => {
    const items = observe(from, 'e', { clock })
    const { value } = await items.next()
    await items.return?.()
    return value?.remainingMs
  }
  expect(await left(store)).toBe(lease)
  expect(await left(memory)).toBe(lease - 4_000)
  await leader.release()
  expect(await left(memory)).toBe(0)
})

test.each<[string, () => unknown, RegExp]>([
  ['an invalid store', () => observe({} as LeaseStore, 'e'), /"store".*LeaseStore/],
  ['an empty election name', () => observe(memoryStore(), ''), /"election"/],
  ['a signal in place of options', () => observe(memoryStore(), 'e', new AbortController().signal as never), /signal/],
  ['an unknown option', () => observe(memoryStore(), 'e', { poll: 1 } as never), /no option "poll"/],
  ['a pollIntervalMs of zero', () => observe(memoryStore(), 'e', { pollIntervalMs: 0 }), /"pollIntervalMs"/],
  ['an infinite timeoutMs', () => observe(memoryStore(), 'e', { timeoutMs: Infinity }), /"timeoutMs"/],
  ['an onError that is not a function', () => observe(memoryStore(), 'e', { onError: 1 as never }), /"onError"/],
])('observe rejects %s at once', (_, open, message) => {
  expect(open).toThrow(message)
  expect(open).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
})

test('observe rejects a store without lasting terms', () => {
  const store = ttlStore(memoryTtlStorage<string, string>())
  expect(() => observe(store, 'e')).toThrow(expect.objectContaining({ code: 'TERMS_REQUIRED' }))
})

test('observe follows the changes of leader in a file store', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-observe-'))
  const [store, other] = [fileStore({ directory }), fileStore({ directory })]
  onTestFinished(async () => {
    await store.close?.()
    await other.close?.()
    rmSync(directory, { recursive: true })
  })
  const leader = leaderOn(other)
  await leader.acquire()
  const changes: string[] = []
  for await (const { change, record, remainingMs } of observe(store, 'e')) {
    changes.push(`${change} ${record?.term}`)
    if (change === 'state') {
      expect(remainingMs).toBeGreaterThan(0)
      await leader.renew()
    }
    if (change === 'renewed') await leader.release()
    if (change === 'released') await leader.acquire()
    if (change === 'elected') break
  }
  expect(changes).toEqual(['state 1', 'renewed 1', 'released 1', 'elected 2'])
})
