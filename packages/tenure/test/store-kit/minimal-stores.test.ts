import { expect, test } from 'vitest'
import type { AcquireClaim, LeaseStore } from '../../src/engine/lease-store.ts'
import { casStore } from '../../src/store-kit/cas-store.ts'
import { memoryTtlStorage } from '../../src/store-kit/memory-ttl-storage.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { ttlStore } from '../../src/store-kit/ttl-store.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { CasMap } from '../../../testing/test/conformance/cas-map.ts'

const clock = fakeClock()
const call = { signal: new AbortController().signal }
const claim: AcquireClaim = {
  election: 'jobs',
  holder: 'ada',
  attempt: 'first',
  leaseDurationMs: 10_000,
  afterTerm: 0,
  metadata: {},
}

// One store for each way to build one.
test.each<[string, LeaseStore]>([
  ['swapStore', casStore(new CasMap().backend(), { clock })],
  ['buildStore', memoryStore({ clock })],
  ['plainStore', ttlStore(memoryTtlStorage({ clock }), { clock })],
])('a store built by %s can be wrapped by spreading it', async (_, store) => {
  const claims: string[] = []
  const wrapped: LeaseStore = {
    ...store,
    acquire: (asked, options) => {
      claims.push(asked.holder)
      return store.acquire(asked, options)
    },
  }
  const won = await wrapped.acquire(claim, call)
  if (!won.ok) expect.unreachable('a free lease is granted')
  expect(claims).toEqual(['ada'])
  expect(await wrapped.renew(won.record, call)).toMatchObject({ ok: true, record: { term: 1 } })
  expect(wrapped).toMatchObject({ expiry: store.expiry, terms: store.terms })
})
