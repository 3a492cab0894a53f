import { describe, expect, test } from 'vitest'
import { casStore, Elector, lead, memoryStore, type LeaseStore, type VersionedValue } from '../../src/index.ts'
import { fakeClock, type FakeClock } from '../../../testing/src/index.ts'
import { cutOff, faultyStore, refusedConnection } from '../faulty-store.ts'
import { follow } from '../promise-outcome.ts'

/** A store whose candidates determine expiry by observing the record. */
function observedStore(clock: FakeClock): LeaseStore {
  const values = new Map<string, VersionedValue>()
  const cas = {
    get: async (key: string) => values.get(key),
    async putIfVersion(key: string, value: string, version: string | undefined) {
      if (values.get(key)?.version !== version) return undefined
      const next = String(Number(version ?? 0) + 1)
      values.set(key, { value, version: next })
      return next
    },
  }
  return casStore(cas, { clock })
}

/** An observed store with a watch that replays the previous record before each current one. */
function watchedStore(clock: FakeClock): LeaseStore {
  const store = observedStore(clock)
  const seen: Awaited<ReturnType<LeaseStore['read']>>[] = []
  return {
    ...store,
    async renew(...args) {
      const outcome = await store.renew(...args)
      if (outcome.ok) seen.push(outcome.record)
      return outcome
    },
    async *watch(election, { signal }) {
      // Replay the previous record before each current one.
      while (!signal.aborted) {
        yield seen.at(-2)
        await new Promise<void>((resolve) => clock.setTimer(100, resolve))
        yield await store.read(election, { signal })
      }
    },
  }
}

const stores = { memory: (clock: FakeClock) => memoryStore({ clock }), observed: observedStore, watched: watchedStore }
type Kind = keyof typeof stores

async function scene(kind: Kind) {
  const clock = fakeClock()
  const store = stores[kind](clock)
  const observer = { onEvent: () => undefined }
  const options = (identity: string) => ({ store, election: 'import', identity, clock, observer })
  const holder = new Elector(options('holder'))
  holder.start()
  await clock.advance(4_000)
  const call = (ownClock = clock) => follow(lead({ ...options('me'), clock: ownClock, wait: false }, () => 'done'))
  return { clock, store, holder, call, options }
}

describe('lead with wait: false', () => {
  test.each<Kind>(['memory', 'observed', 'watched'])(
    'lead with wait: false rejects with BUSY at once on the %s store when the leader has just renewed',
    async (kind) => {
      const { clock, holder, call } = await scene(kind)
      const called = call()
      await clock.advance(0)
      expect(called).toMatchObject({ state: 'rejected', error: { code: 'BUSY', retryable: true } })
      await Promise.all([holder.stop(), clock.advance(1_000)])
      expect(clock.timers).toBe(0)
    },
  )

  test.each<[Kind, string, number]>([
    ['observed', 'behind', -3_600_000],
    ['observed', 'ahead', 3_600_000],
    ['watched', 'behind', -3_600_000],
    ['watched', 'ahead', 3_600_000],
  ])(
    'lead with wait: false rejects with BUSY on the %s store after it saw a renewal when its wall clock is an hour %s',
    async (kind, _, aheadMs) => {
      const { clock, holder, call } = await scene(kind)
      const called = call({ ...clock, wallMs: () => clock.wallMs() + aheadMs })
      // The holder renewed before this call read the record, so the record alone does not show that the lease is alive.
      await clock.advance(900)
      expect(called.state).toBe('pending')
      await clock.advance(4_000)
      expect(called).toMatchObject({ state: 'rejected', error: { code: 'BUSY', retryable: true } })
      expect(String(called.error)).toContain('"holder" leads in term 1')
      await Promise.all([holder.stop(), clock.advance(1_000)])
      expect(clock.timers).toBe(0)
    },
  )

  test.each<Kind>(['observed', 'watched'])(
    'lead with wait: false waits until the lease of a crashed leader expires on the %s store',
    async (kind) => {
      const clock = fakeClock()
      const store = stores[kind](clock)
      const link = faultyStore(store, clock)
      const crashed = new Elector({ store: link, election: 'import', clock, observer: { onEvent: () => undefined } })
      crashed.start()
      await clock.advance(7_000)
      cutOff(link)
      await clock.advance(15_000)
      const called = follow(lead({ store, election: 'import', clock, wait: false }, ({ term }) => term))
      await clock.advance(14_000)
      expect(called.state).toBe('pending')
      await clock.advance(3_500)
      expect(called).toMatchObject({ state: 'resolved', value: 2 })
    },
  )

  test.each<Kind>(['memory', 'observed', 'watched'])(
    'lead with wait: false runs at once on the %s store when nobody leads',
    async (kind) => {
      const { clock, holder, call } = await scene(kind)
      await Promise.all([holder.stop(), clock.advance(1_000)])
      const called = call()
      await clock.advance(10)
      expect(called).toMatchObject({ state: 'resolved', value: 'done' })
    },
  )

  test('one of two concurrent calls of lead with wait: false runs on a released lease, and the other rejects', async () => {
    const { clock, holder, options } = await scene('observed')
    await Promise.all([holder.stop(), clock.advance(1_000)])
    const slow = () => new Promise((resolve) => clock.setTimer(20_000, () => resolve('done')))
    const both = ['a', 'b'].map((identity) => follow(lead({ ...options(identity), wait: false }, slow)))
    await clock.advance(10_000)
    expect(both.map(({ state }) => state).toSorted()).toEqual(['pending', 'rejected'])
    await clock.advance(15_000)
    expect(both.map(({ state }) => state).toSorted()).toEqual(['rejected', 'resolved'])
  })

  test('lead with wait: false rejects with the store error when no call is answered within one lease', async () => {
    const { clock, holder, store, options } = await scene('memory')
    const link = faultyStore(store, clock)
    link.fault = () => 'error'
    const called = follow(lead({ ...options('me'), store: link, wait: false }, () => 'done'))
    await clock.advance(10_500)
    expect(called.state).toBe('pending')
    await clock.advance(4_500)
    expect(called).toMatchObject({ state: 'rejected', error: { cause: refusedConnection } })
    await Promise.all([holder.stop(), clock.advance(1_000)])
    expect(clock.timers).toBe(0)
  })

  test('lead with wait: false rejects when it loses the lease during its work', async () => {
    const clock = fakeClock()
    const link = faultyStore(memoryStore({ clock }), clock)
    const called = follow(
      lead({ store: link, election: 'e', clock, wait: false, observer: {} }, ({ signal }) => {
        return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      }),
    )
    await clock.advance(10)
    cutOff(link)
    await clock.advance(12_000)
    expect(called).toMatchObject({ state: 'rejected', error: { code: 'LEADERSHIP_LOST', reason: 'expired' } })
  })
})

describe('an elector that campaigns once', () => {
  test('waitForLeadership rejects with the holder when an elector that campaigns once is refused', async () => {
    const { clock, holder, options } = await scene('memory')
    const elector = new Elector(options('me'))
    elector.start({ until: 'refused' })
    await clock.advance(1_000)
    await expect(elector.waitForLeadership()).rejects.toMatchObject({
      code: 'BUSY',
      message: expect.stringContaining('"import" is busy: "holder" leads in term 1'),
    })
    await Promise.all([holder.stop(), clock.advance(1_000)])
  })

  test('waitForLeadership rejects with the store error when an elector that campaigns once fails', async () => {
    const { clock, holder, store, options } = await scene('memory')
    const link = faultyStore(store, clock)
    link.fault = () => 'error'
    const elector = new Elector({ ...options('me'), store: link })
    elector.start({ until: 'refused' })
    const waited = follow(elector.waitForLeadership())
    await clock.advance(1_000)
    expect(waited.state).toBe('rejected')
    expect(waited.error).not.toMatchObject({ code: 'STOPPED' })
    await Promise.all([holder.stop(), clock.advance(1_000)])
  })

  test('an elector that campaigns once acquires a released lease without knowing the newest term', async () => {
    const { clock, holder, options } = await scene('memory')
    await Promise.all([holder.stop(), clock.advance(1_000)])
    const elector = new Elector(options('me'))
    elector.start({ until: 'refused' })
    await clock.advance(1_000)
    expect(elector.isLeader()).toBe(true)
    await Promise.all([elector.stop(), clock.advance(1_000)])
  })
})

describe('a checkpoint that is set while work winds down', () => {
  const leading = async () => {
    const clock = fakeClock()
    const memory = memoryStore({ clock })
    const link = faultyStore(memory, clock)
    const elector = new Elector({ store: link, election: 'e', clock, observer: { onEvent: () => undefined } })
    elector.start()
    await clock.advance(0)
    return { clock, memory, link, elector, leadership: await elector.waitForLeadership() }
  }
  const call = { signal: new AbortController().signal }

  test('a checkpoint that is set while work winds down is recorded before the lease is released', async () => {
    const { clock, memory, elector, leadership } = await leading()
    leadership.waitUntil(
      new Promise<void>((resolve) => leadership.signal.addEventListener('abort', () => resolve())).then(() =>
        leadership.setCheckpoint('the last word'),
      ),
    )
    await Promise.all([elector.stop(), clock.advance(100)])
    expect(await memory.read('e', call)).toMatchObject({ checkpoint: 'the last word', released: true })
    await expect(leadership.setCheckpoint('too late')).rejects.toMatchObject({ code: 'LEADERSHIP_LOST' })
  })

  test('a checkpoint is rejected at the deadline when the store does not answer, and no call follows', async () => {
    const { clock, memory, link, elector, leadership } = await leading()
    cutOff(link)
    const carried = follow(
      new Promise<void>((resolve) => leadership.signal.addEventListener('abort', () => resolve())).then(() =>
        leadership.setCheckpoint('the last word'),
      ),
    )
    const settled = new Promise<void>((resolve) => clock.setTimer(20_000, resolve))
    leadership.waitUntil(settled)
    const stopping = elector.stop()
    await clock.advance(9_900)
    expect(carried.state).toBe('pending')
    await clock.advance(200)
    expect(carried).toMatchObject({ state: 'rejected', error: { code: 'LEADERSHIP_LOST' } })
    await Promise.all([stopping, clock.advance(30_000)])
    expect((await memory.read('e', call))?.checkpoint).toBe('')
    expect(clock.timers).toBe(0)
  })

  test('a checkpoint is rejected after a loss', async () => {
    const { clock, link, elector, leadership } = await leading()
    leadership.waitUntil(new Promise<void>((resolve) => clock.setTimer(20_000, resolve)))
    cutOff(link)
    await clock.advance(12_000)
    await expect(leadership.setCheckpoint('late')).rejects.toMatchObject({ code: 'LEADERSHIP_LOST', reason: 'expired' })
    await Promise.all([elector.stop(), clock.advance(40_000)])
  })
})
