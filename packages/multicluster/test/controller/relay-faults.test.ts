/** Tests that the guarantees of a relay hold, no matter what candidates, operators, and global stores do. */
import { expect, test } from 'vitest'
import type { LeaseRecord } from 'tenure'
import { simulatedKv } from '../../../testing/src/simulation/simulated-kv.ts'
import { casStore } from '../../../tenure/src/store-kit/cas-store.ts'
import { fakeClock } from '../../../testing/src/fakes/fake-clock.ts'
import { acquire, call, election, key, oneCluster, quietStore } from '../one-cluster.ts'

test('a relay waits a full lease after it learns of a higher term whose record was removed, even when it has observed no record for a long time', async () => {
  const clock = fakeClock()
  const { server, store } = quietStore(clock)
  const { start, put, shown } = oneCluster(clock, store)
  start()
  await put({ a: acquire('first') })
  await clock.advance(100)
  expect((await shown())?.answers['a']).toMatchObject({ ok: true, record: { term: 1 } })
  server.delete(election)
  await put({ a: acquire('second', { afterTerm: 1 }) })
  await clock.advance(16_000)
  // Another cluster leads now, and its record is also removed before any relay reads it.
  const claim = { election, holder: 'west/b', attempt: 'west', leaseDurationMs: 15_000, metadata: {} }
  const other = await store.acquire({ ...claim, afterTerm: 1, expiredVersion: '' }, call)
  expect(other).toMatchObject({ ok: true, record: { term: 2 } })
  server.delete(election)
  await put({ a: acquire('third', { afterTerm: 1 }) })
  await clock.advance(100)
  const { highestTerm, retryAfterMs } = (await shown())?.answers['a'] ?? {}
  expect(highestTerm).toBe(2)
  expect(retryAfterMs).toBeGreaterThan(14_000)
  await put({ a: acquire('fourth', { afterTerm: 2 }) })
  await clock.advance(100)
  expect((await shown())?.answers['a']).toMatchObject({ id: 'fourth', ok: false })
})

test('spec-only candidates get a term above the shown one after the global store lost all data', async () => {
  const clock = fakeClock()
  const kv = simulatedKv({ watch: false })
  const { start, beat, shown } = oneCluster(clock, casStore(kv, { clock }))
  const first = start()
  for (let terms = 1; terms <= 3; terms += 1) {
    await beat('a')
    await clock.advance(100)
    await beat('')
    await clock.advance(100)
  }
  kv.delete(election)
  await clock.advance(10_000)
  expect(await shown()).toMatchObject({ term: 3, leader: '' })
  expect((await shown())?.record).toBeUndefined()
  await first.stop()
  start()
  let led: unknown
  for (let tries = 0; tries < 40 && !led; tries += 1) {
    const generation = (await beat('a'))?.generation
    await clock.advance(2_000)
    const status = await shown()
    if (status?.leader === 'a' && status.observedGeneration === generation) led = status.term
  }
  expect(led).toBe(4)
})

test('a relay does not renew a term below the shown one after the global store was restored, and waits for its lease', async () => {
  const clock = fakeClock()
  const kv = simulatedKv({ watch: false })
  const { start, beat, shown } = oneCluster(clock, casStore(kv, { clock }))
  start()
  await beat('a')
  await clock.advance(100)
  const backup = (await kv.get(election, call))?.value ?? ''
  await beat('')
  await clock.advance(100)
  await beat('a')
  await clock.advance(100)
  expect(await shown()).toMatchObject({ term: 2, leader: 'a' })
  kv.delete(election)
  await kv.putIfVersion(election, backup, undefined, call)
  let led: unknown
  for (let tries = 0; tries < 40 && !led; tries += 1) {
    const generation = (await beat('a'))?.generation
    await clock.advance(2_000)
    const status = await shown()
    if (status?.leader === 'a' && status.observedGeneration === generation) led = status.term
  }
  expect(led).toBe(3)
})

test('a relay shows a record whose timestamps are outside the range of valid dates', async () => {
  const clock = fakeClock()
  const { store } = quietStore(clock)
  const odd = <T extends LeaseRecord | undefined>(record: T) =>
    record && { ...record, acquiredAt: 1e18, renewedAt: -1e18 }
  const { start, put, shown } = oneCluster(clock, {
    ...store,
    read: async (...args) => odd(await store.read(...args)),
    async acquire(...args) {
      const outcome = await store.acquire(...args)
      return outcome.ok ? { ...outcome, record: odd(outcome.record) } : outcome
    },
  })
  start()
  await put({ a: acquire('first') })
  await clock.advance(1_000)
  const status = await shown()
  expect(status?.answers['a']).toMatchObject({ id: 'first', ok: true })
  expect(status?.acquireTime).toMatch(/^\d{4}-\d\d-\d\dT/)
  expect(status?.renewTime).toMatch(/^\d{4}-\d\d-\d\dT/)
  expect(Math.abs(status?.record?.acquiredAt ?? Infinity)).toBeLessThanOrEqual(8.64e15)
})

test('a relay reports a failure with one resource and serves the resource again at its next change', async () => {
  const clock = fakeClock()
  const { store } = quietStore(clock)
  const { start, put, shown } = oneCluster(clock, store)
  const errors: unknown[] = []
  let wrong = 1
  start({
    clock: { ...clock, wallMs: () => (wrong-- > 0 ? Number.NaN : clock.wallMs()) },
    observer: { onError: (error) => errors.push(error) },
  })
  await put({ a: acquire('first') })
  await clock.advance(1_000)
  expect(errors).toHaveLength(1)
  await put({ a: acquire('second', { afterTerm: 1 }) })
  await clock.advance(1_000)
  expect((await shown())?.answers['a']?.id).toBe('second')
})

test('a relay does not poll the global store in a loop when a lease lasts one millisecond', async () => {
  const clock = fakeClock()
  const { store } = quietStore(clock)
  let reads = 0
  const { start, put } = oneCluster(clock, {
    ...store,
    read(...args) {
      reads += 1
      return store.read(...args)
    },
  })
  start()
  await put({ a: acquire('brief', { leaseDurationMs: 1 }) })
  await clock.advance(100)
  await put({ b: { ...acquire('long', { leaseDurationMs: 2 ** 31 - 1, holder: 'b' }), verb: 'read' } })
  await clock.advance(100)
  reads = 0
  await clock.advance(1_000)
  expect(reads).toBeGreaterThanOrEqual(9)
  expect(reads).toBeLessThanOrEqual(10)
})

test('a relay answers a request and shows at most 8,192 characters of metadata when serialization makes the metadata longer', async () => {
  const clock = fakeClock()
  const { store } = quietStore(clock)
  const { start, put, shown } = oneCluster(clock, store)
  start()
  const metadata = JSON.stringify({ a: 0 }).replace('0', `[${Array(800).fill('1e20').join(',')}]`)
  expect(metadata.length).toBeLessThan(4096)
  await put({ a: acquire('first', { metadata }) })
  await clock.advance(100)
  const answer = (await shown())?.answers['a']
  expect(answer?.id).toBe('first')
  expect(answer?.record?.metadata.length ?? 0).toBeLessThanOrEqual(8192)
})

test('a relay accepts names of built-in object properties as request keys', async () => {
  const clock = fakeClock()
  const { store } = quietStore(clock)
  const { memory, start, put, shown } = oneCluster(clock, store)
  start()
  await put({ constructor: acquire('first') })
  await clock.advance(100)
  expect(Object.keys((await shown())?.answers ?? {})).toEqual(['constructor'])
  await memory.patchSpec(key, { requests: { constructor: null } }, call)
  await clock.advance(100)
  expect(Object.keys((await shown())?.answers ?? {})).toEqual([])
})

test('a condition has a reason that the API server accepts when the code of the store error is a number', async () => {
  const clock = fakeClock()
  const { store } = quietStore(clock)
  const down = async (): Promise<never> => {
    throw Object.assign(new Error('The global store is down.'), { code: 14 })
  }
  const { start, put, shown } = oneCluster(clock, { ...store, acquire: down })
  start()
  await put({ a: acquire('first') })
  await clock.advance(4_000)
  const condition = (await shown())?.conditions?.find(({ type }) => type === 'BackendHealthy')
  expect(condition?.status).toBe('False')
  expect(condition?.reason).toMatch(/^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/)
})

test('a relay abandons a hanging call and repeats it, however long the candidate would wait', async () => {
  const clock = fakeClock()
  const { store } = quietStore(clock)
  let calls = 0
  const { start, put, shown } = oneCluster(clock, {
    ...store,
    acquire: (...args) => (++calls === 1 ? new Promise<never>(() => {}) : store.acquire(...args)),
  })
  start({ callLimit: 1 })
  const longMs = 2 ** 31 - 1
  await put({ a: { ...acquire('patient', { leaseDurationMs: longMs }), timeoutMs: longMs }, b: acquire('other') })
  await clock.advance(15_000)
  expect((await shown())?.answers['a']).toMatchObject({ id: 'patient', ok: true })
})

test('a relay discards a confirmation whose call was answered after the machine slept', async () => {
  const clock = fakeClock()
  const { store } = quietStore(clock)
  let first: string | undefined
  const { start, beat, shown } = oneCluster(clock, {
    ...store,
    async acquire(...args) {
      const outcome = await store.acquire(...args)
      if (first === undefined) clock.sleep(25_000)
      first ??= outcome.record?.version
      return outcome
    },
  })
  start()
  const generation = (await beat('a'))?.generation
  await clock.advance(1_000)
  expect(await shown()).toMatchObject({ leader: 'a', observedGeneration: generation, term: 1 })
  expect((await shown())?.record?.version).not.toBe(first)
})

test('a relay lowers a restored observedGeneration that is higher than the generation of the resource', async () => {
  const clock = fakeClock()
  const { store } = quietStore(clock)
  const { memory, start, beat, shown } = oneCluster(clock, store)
  const made = await beat('a')
  await memory.patchStatus({ ...key, uid: made?.uid ?? '' }, { observedGeneration: 57, leader: 'a' }, undefined, call)
  start()
  await clock.advance(1_000)
  expect((await shown())?.observedGeneration).toBe(1)
})
