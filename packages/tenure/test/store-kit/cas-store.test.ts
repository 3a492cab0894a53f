import { describe, expect, test } from 'vitest'
import { storeConformance } from '../../../testing/src/conformance/index.ts'
import type { AcquireClaim } from '../../src/engine/lease-store.ts'
import { casStore, type CompareAndSwap } from '../../src/store-kit/cas-store.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { CasMap } from '../../../testing/test/conformance/cas-map.ts'

const call = { signal: new AbortController().signal }

function claim(attempt: string, change: Partial<AcquireClaim> = {}): AcquireClaim {
  return { election: 'jobs', holder: attempt, attempt, leaseDurationMs: 10_000, afterTerm: 0, metadata: {}, ...change }
}

/** Runs `event` in the store between a call's next read and its write. */
function between(map: CasMap, event: () => Promise<unknown>): CompareAndSwap {
  let pending: typeof event | undefined = event
  const backend = map.backend()
  return {
    ...backend,
    async putIfVersion(...args) {
      const happens = pending
      pending = undefined
      await happens?.()
      return backend.putIfVersion(...args)
    },
  }
}

describe.each([
  { watch: true, hashes: false },
  { watch: false, hashes: false },
  { watch: false, hashes: true },
])('casStore over a map, watch: $watch, versions that are hashes: $hashes', (options) => {
  const makeStore = () => {
    const clock = fakeClock()
    const map = new CasMap(options)
    return {
      store: casStore(map.backend(options), { clock }),
      open: () => casStore(map.backend(options), { clock }),
      remove: (election: string) => map.remove(election),
      forgetsTerms: true,
      pass: clock.advance,
    }
  }
  for (const { name, run } of storeConformance(makeStore)) test(name, run)
})

test('acquire is refused when another candidate acquires and releases the lease before the write', async () => {
  const map = new CasMap()
  const other = casStore(map.backend())
  const backend = between(map, async () => {
    const won = await other.acquire(claim('other'), call)
    if (won.ok) await other.release({ ...won.record }, call)
  })
  const outcome = await casStore(backend).acquire(claim('late'), call)
  expect(outcome).toMatchObject({ ok: false, highestTerm: 1, record: { attempt: 'other', released: true } })
  expect(await other.read('jobs', call)).toMatchObject({ attempt: 'other', released: true })
})

test('a takeover is refused when the record is deleted before the write', async () => {
  const map = new CasMap()
  const held = await casStore(map.backend()).acquire(claim('other'), call)
  if (!held.ok) throw new Error('The election is free.')
  const store = casStore(between(map, async () => map.remove('jobs')))
  const outcome = await store.acquire(claim('late', { afterTerm: 1, expiredVersion: held.record.version }), call)
  expect(outcome).toEqual({ ok: false, highestTerm: 0 })
  expect(await store.read('jobs', call)).toBeUndefined()
})

test("acquire rejects with the backend's error, because its outcome is unknown", async () => {
  const store = casStore({ ...new CasMap().backend(), putIfVersion: () => Promise.reject(new Error('timed out')) })
  await expect(store.acquire(claim('a1'), call)).rejects.toThrow('timed out')
})

test('acquire of casStore fails when another election uses the same key', async () => {
  const backend = new CasMap().backend()
  const store = casStore({
    get: (_, options) => backend.get('one key', options),
    putIfVersion: (_, value, version, options) => backend.putIfVersion('one key', value, version, options),
  })
  await store.acquire(claim('a1'), call)
  await expect(store.acquire(claim('b1', { election: 'reports' }), call)).rejects.toMatchObject({
    code: 'RECORD_INVALID',
    message: expect.stringContaining('it belongs to "jobs", so two elections share one key'),
  })
})

test('close closes the backend', async () => {
  let closed = 0
  const store = casStore({ ...new CasMap().backend(), close: async () => void closed++ })
  await store.close?.()
  expect(closed).toBe(1)
})

test('all requests of a call share its timeout, and none is sent after it has passed', async () => {
  const clock = fakeClock()
  const given: unknown[] = []
  const answerMs = 400
  const backend: CompareAndSwap = {
    async get(_election, { timeoutMs }) {
      given.push(timeoutMs)
      await clock.advance(answerMs)
      return undefined
    },
    async putIfVersion(_election, _value, _version, { timeoutMs }) {
      given.push(timeoutMs)
      await clock.advance(answerMs)
      return undefined
    },
  }
  const store = casStore(backend, { clock })
  await store.acquire(claim('a1'), { ...call, timeoutMs: 1_000 })
  expect(given.splice(0)).toEqual([1_000, 600, 200])
  const short = store.acquire(claim('a2'), { ...call, timeoutMs: 700 })
  await expect(short).rejects.toMatchObject({ code: 'TIMEOUT', retryable: true })
  expect(given).toEqual([700, 300])
})
