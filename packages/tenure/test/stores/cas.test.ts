import { expect, test } from 'vitest'
import type { AcquireClaim } from '../../src/lease-store.ts'
import { casStore, type CompareAndSwap } from '../../src/stores/cas.ts'
import { CasMap } from '../conformance/cas-map.ts'

const call = { signal: new AbortController().signal }

function claim(attempt: string, change: Partial<AcquireClaim> = {}): AcquireClaim {
  return { election: 'jobs', holder: attempt, attempt, leaseDurationMs: 10_000, afterTerm: 0, metadata: {}, ...change }
}

/** Lets something happen in the store between the next read of a call and its write. */
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

test('a claim that lost its race to a lease that is over already is refused, not granted unwritten', async () => {
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

test('a take-over whose record vanished before the write is refused', async () => {
  const map = new CasMap()
  const held = await casStore(map.backend()).acquire(claim('other'), call)
  if (!held.ok) throw new Error('The election is free.')
  const store = casStore(between(map, async () => map.remove('jobs')))
  const outcome = await store.acquire(claim('late', { afterTerm: 1, expiredVersion: held.record.version }), call)
  expect(outcome).toEqual({ ok: false, highestTerm: 0 })
  expect(await store.read('jobs', call)).toBeUndefined()
})

test('an error of the backend reaches the caller, whose outcome is then unknown', async () => {
  const store = casStore({ ...new CasMap().backend(), putIfVersion: () => Promise.reject(new Error('timed out')) })
  await expect(store.acquire(claim('a1'), call)).rejects.toThrow('timed out')
})

test('two elections that share one key are told apart, and nobody is elected', async () => {
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

test('closing closes the backend', async () => {
  let closed = 0
  const store = casStore({ ...new CasMap().backend(), close: async () => void closed++ })
  await store.close?.()
  expect(closed).toBe(1)
})
