import { describe, expect, test } from 'vitest'
import { storeConformance } from '../../../testing/src/conformance/index.ts'
import { Elector } from '../../src/engine/elector.ts'
import type { AcquireClaim, HeldClaim, LeaseRecord, Outcome } from '../../src/engine/lease-store.ts'
import { memoryTtlStorage } from '../../src/store-kit/memory-ttl-storage.ts'
import { ttlLease, ttlStore, type TtlStorage } from '../../src/store-kit/ttl-store.ts'
import { fakeClock } from '../../../testing/src/index.ts'

const call = { signal: new AbortController().signal }
const leaseDurationMs = 10_000

function claim(attempt: string, change: Partial<AcquireClaim> = {}): AcquireClaim {
  return { election: 'jobs', holder: 'ada', attempt, leaseDurationMs, afterTerm: 0, metadata: {}, ...change }
}

function held({ election, holder, attempt, term, version }: LeaseRecord): HeldClaim {
  return { election, holder, attempt, term, version, leaseDurationMs }
}

function recordOf(outcome: Outcome): LeaseRecord {
  if (!outcome.ok) throw new Error(`Refused: ${JSON.stringify(outcome)}`)
  return outcome.record
}

/** A real storage behind a faulty network: a fault loses the next request, loses its answer, or delays the answer. */
function faulty(storage: TtlStorage<string, string>) {
  type Fault = 'lose request' | 'lose answer' | 'hold answer'
  const faults: Fault[] = []
  const sent: string[] = []
  const heldBack: (() => void)[] = []
  const pass = async (verb: string, request: () => Promise<boolean> | boolean) => {
    sent.push(verb)
    const fault = faults.shift()
    if (fault === 'lose request') throw new Error('connection reset')
    const answer = await request()
    if (fault === 'lose answer') throw new Error('connection reset')
    if (fault === 'hold answer') await new Promise<void>((resolve) => heldBack.push(resolve))
    return answer
  }
  const through: TtlStorage<string, string> = {
    insertIfNotExist: (...args) => pass('insert', () => storage.insertIfNotExist(...args)),
    compareAndSwap: (...args) => pass('swap', () => storage.compareAndSwap(...args)),
    compareAndDelete: (...args) => pass('delete', () => storage.compareAndDelete(...args)),
  }
  const deliver = async () => {
    heldBack.shift()?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
  return { storage: through, next: (...wanted: Fault[]) => faults.push(...wanted), sent, deliver }
}

function setUp() {
  const clock = fakeClock()
  const real = memoryTtlStorage<string, string>({ clock })
  const network = faulty(real)
  return { clock, network, store: ttlStore(network.storage, { clock }), other: ttlStore(real, { clock }) }
}

describe('ttlStore', () => {
  const makeStore = () => {
    const clock = fakeClock()
    const storage = memoryTtlStorage<string, string>({ clock })
    return { store: ttlStore(storage, { clock }), open: () => ttlStore(storage, { clock }), pass: clock.advance }
  }
  for (const { name, run } of storeConformance(makeStore)) test(name, run)
})

describe('ttlStore: an insert with an unknown outcome', () => {
  test.each([
    { fault: 'lose answer', sent: ['insert', 'insert', 'swap'] },
    { fault: 'lose request', sent: ['insert', 'insert'] },
  ] as const)('repeating the attempt resolves an insert with an unknown outcome ($fault)', async ({ fault, sent }) => {
    const { network, store, other } = setUp()
    network.next(fault)
    await expect(store.acquire(claim('a1'), call)).rejects.toThrow('connection reset')
    expect(await store.acquire(claim('a1'), call)).toMatchObject({ ok: true, record: { attempt: 'a1', term: 1 } })
    expect(network.sent).toEqual(sent)
    expect(await other.acquire(claim('b1', { holder: 'bob' }), call)).toMatchObject({ ok: false })
  })

  test('acquire does not claim an entry for an attempt that this store never sent', async () => {
    const { network, store, other } = setUp()
    await other.acquire(claim('a1'), call)
    expect(await store.acquire(claim('a1'), call)).toEqual({ ok: false, highestTerm: 0 })
    expect(network.sent).toEqual(['insert'])
  })

  test('the outcome stays unknown when the swap that would resolve it fails too', async () => {
    const { network, store } = setUp()
    network.next('lose answer')
    await expect(store.acquire(claim('a1'), call)).rejects.toThrow('connection reset')
    network.next('hold answer', 'lose answer')
    const second = expect(store.acquire(claim('a1'), call)).rejects.toThrow('connection reset')
    await network.deliver()
    await network.deliver()
    await second
    expect(await store.acquire(claim('a1'), call)).toMatchObject({ ok: true, record: { attempt: 'a1' } })
  })

  test('a repeated attempt is refused when another candidate holds the lease', async () => {
    const { network, store, other } = setUp()
    await other.acquire(claim('b1', { holder: 'bob' }), call)
    network.next('lose request')
    await expect(store.acquire(claim('a1'), call)).rejects.toThrow('connection reset')
    expect(await store.acquire(claim('a1'), call)).toMatchObject({ ok: false })
  })

  test('a repeated attempt expires one lease after its first call', async () => {
    const { clock, network, store } = setUp()
    network.next('lose answer')
    await expect(store.acquire(claim('a1'), call)).rejects.toThrow('connection reset')
    await clock.advance(leaseDurationMs - 1)
    expect(await store.acquire(claim('a1'), call)).toMatchObject({ ok: true })
    await clock.advance(1)
    expect(await store.acquire(claim('a1'), call)).toMatchObject({ ok: false })
  })

  test('acquire rejects when the signal aborts, and a late answer counts for the same attempt', async () => {
    const { network, store } = setUp()
    const controller = new AbortController()
    network.next('hold answer')
    const first = store.acquire(claim('a1'), { signal: controller.signal })
    controller.abort(new Error('too slow'))
    await expect(first).rejects.toThrow('too slow')
    await network.deliver()
    expect(await store.acquire(claim('a1'), call)).toMatchObject({ ok: true, record: { attempt: 'a1' } })
    expect(network.sent).toEqual(['insert'])
  })

  test('an answer that arrives after its lease has expired does not replace a later grant', async () => {
    const { clock, network, store } = setUp()
    network.next('hold answer')
    const late = store.acquire(claim('a1'), call)
    await clock.advance(leaseDurationMs)
    const successor = recordOf(await store.acquire(claim('b1', { holder: 'bob' }), call))
    await network.deliver()
    expect(await late).toMatchObject({ ok: false, highestTerm: successor.term })
    expect(await store.renew(held(successor), call)).toMatchObject({ ok: true })
  })
})

describe('ttlStore: a held lease', () => {
  test('renew succeeds again with the same version after a renewal whose answer was lost', async () => {
    const { network, store } = setUp()
    const record = recordOf(await store.acquire(claim('a1'), call))
    network.next('lose answer')
    await expect(store.renew(held(record), call)).rejects.toThrow('connection reset')
    expect(await store.renew(held(record), call)).toMatchObject({ ok: true })
  })

  test('renew and a repeated attempt are refused without a record once the storage has lost the entry', async () => {
    const { clock, store, other } = setUp()
    const record = recordOf(await store.acquire(claim('a1'), call))
    await clock.advance(leaseDurationMs)
    await other.acquire(claim('b1', { holder: 'bob' }), call)
    expect(await store.renew(held(record), call)).toEqual({ ok: false, highestTerm: record.term })
    expect(await store.acquire(claim('a1', { afterTerm: record.term }), call)).toMatchObject({ ok: false })
  })

  test('a lease stays released when the answer to a concurrent renewal arrives last', async () => {
    const { network, store } = setUp()
    const record = recordOf(await store.acquire(claim('a1'), call))
    network.next('hold answer')
    const renewal = store.renew(held(record), call)
    expect(await store.release(held(record), call)).toMatchObject({ ok: true, record: { released: true } })
    await network.deliver()
    expect(await renewal).toMatchObject({ ok: false, record: { released: true } })
    expect(await store.acquire(claim('a2', { afterTerm: record.term }), call)).toMatchObject({ ok: true })
  })

  test('a late answer to a release does not affect the successor', async () => {
    const { network, store } = setUp()
    const record = recordOf(await store.acquire(claim('a1'), call))
    network.next('hold answer')
    const release = store.release(held(record), call)
    const successor = recordOf(await store.acquire(claim('b1', { holder: 'bob', afterTerm: record.term }), call))
    await network.deliver()
    expect(await release).toMatchObject({ ok: true, record: { attempt: 'a1', released: true } })
    expect(await store.renew(held(successor), call)).toMatchObject({ ok: true })
  })
})

test('ttlStore raises the term with each grant of the same store object', async () => {
  const { store } = setUp()
  for (const term of [1, 2, 3]) {
    const record = recordOf(await store.acquire(claim(`a${term}`), call))
    expect(record.term).toBe(term)
    await store.release(held(record), call)
  }
  expect(await store.acquire(claim('late', { afterTerm: 9 }), call)).toMatchObject({ ok: true, record: { term: 10 } })
  expect(await store.acquire(claim('stranger'), call)).toEqual({ ok: false, highestTerm: 10 })
})

test('a call whose signal has already aborted sends nothing', async () => {
  const { network, store } = setUp()
  const record = recordOf(await store.acquire(claim('a1'), call))
  const aborted = { signal: AbortSignal.abort(new Error('too late')) }
  await expect(store.acquire(claim('a2'), aborted)).rejects.toThrow('too late')
  await expect(store.renew(held(record), aborted)).rejects.toThrow('too late')
  await expect(store.release(held(record), aborted)).rejects.toThrow('too late')
  expect(network.sent).toEqual(['insert'])
})

test('ttlLease accepts keys and values of any type', async () => {
  const clock = fakeClock()
  const key = Symbol('key')
  const value = { worker: 7 }
  const storage = memoryTtlStorage<symbol, object>({ clock })
  const store = ttlLease({ storage, key: () => key, value: () => value, clock })
  const record = recordOf(await store.acquire(claim('a1'), call))
  expect(await storage.insertIfNotExist(key, {}, 1)).toBe(false)
  expect(await store.release(held(record), call)).toMatchObject({ ok: true })
  expect(await storage.insertIfNotExist(key, {}, 1)).toBe(true)
})

test('electors with separate stores over one TTL storage hand over leadership', async () => {
  const clock = fakeClock()
  const storage = memoryTtlStorage<string, string>({ clock })
  const [first, second] = ['ada', 'bob'].map(
    (identity) =>
      new Elector({ store: ttlStore(storage, { clock }), election: 'jobs', identity, leaseDurationMs, clock }),
  ) as [Elector, Elector]
  first.start()
  await clock.advance(1)
  second.start()
  await clock.advance(3 * leaseDurationMs)
  expect([first.isLeader(), second.isLeader()]).toEqual([true, false])
  const stopped = first.stop()
  await clock.advance(leaseDurationMs)
  await stopped
  expect([first.isLeader(), second.isLeader()]).toEqual([false, true])
  const ended = second.stop()
  await clock.advance(leaseDurationMs)
  await ended
})
