/** How the election of the active replica must use the head's term, with any lease store. */
import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import type { AcquireClaim, LeaseStore } from 'tenure'
import { memoryStore } from 'tenure'
import type { activeStore } from '../../src/storage/active-store.ts'
import { batchAfter } from './data-directories.ts'
import { MemoryStorage } from './memory-storage.ts'

export interface ActiveCheck {
  readonly name: string
  run(open: typeof activeStore): Promise<void>
}

const call = { signal: new AbortController().signal, timeoutMs: 5_000 }
const election = 'active'

function claimOf(change: Partial<AcquireClaim> = {}): AcquireClaim {
  return { election, holder: 'a', attempt: 'a', leaseDurationMs: 15_000, afterTerm: 0, metadata: {}, ...change }
}

/** Leases, and a storage whose head has this term. */
async function sceneOf(open: typeof activeStore, term: number, inner: LeaseStore = memoryStore()) {
  const storage = new MemoryStorage()
  const raise = async (to: number) => {
    const head = await storage.head()
    strictEqual(await storage.append(head, batchAfter(head, [], { term: to })), 'done')
  }
  if (term > 0) await raise(term)
  return { inner, raise, store: open(inner, storage) }
}

export const activeChecks: readonly ActiveCheck[] = [
  {
    name: 'a candidate that knows less than the head is refused and learns the term of the head when there is no lease',
    async run(open) {
      const { store } = await sceneOf(open, 7)
      deepStrictEqual(await store.acquire(claimOf(), call), { ok: false, highestTerm: 7 })
      deepStrictEqual(await store.acquire(claimOf({ afterTerm: 6 }), call), { ok: false, highestTerm: 7 })
    },
  },
  {
    name: 'a granted term is above the term of the head',
    async run(open) {
      const { store } = await sceneOf(open, 7)
      const outcome = await store.acquire(claimOf({ afterTerm: 7, expiredVersion: '' }), call)
      ok(outcome.ok)
      ok(outcome.record.term > 7)
    },
  },
  {
    name: 'a refusal shows the record and the higher of its term and the term of the head',
    async run(open) {
      const { store, inner, raise } = await sceneOf(open, 0)
      const held = await inner.acquire(claimOf({ holder: 'b', attempt: 'b' }), call)
      const { record } = held
      for (const [term, highestTerm] of [
        [0, 1],
        [1, 1],
        [9, 9],
      ] as const) {
        if (term > 0) await raise(term)
        for (const afterTerm of [0, 1, 9]) {
          const outcome = await store.acquire(claimOf({ afterTerm }), call)
          ok(!outcome.ok)
          deepStrictEqual([outcome.record, outcome.highestTerm], [record, highestTerm])
        }
      }
    },
  },
  {
    name: 'a lease that was released below the term of the head is granted above it',
    async run(open) {
      const { store, inner } = await sceneOf(open, 7)
      const held = await inner.acquire(claimOf({ holder: 'b', attempt: 'b' }), call)
      ok(held.ok)
      ok((await inner.release(held.record, call)).ok)
      const refused = await store.acquire(claimOf(), call)
      deepStrictEqual([refused.ok, !refused.ok && refused.highestTerm], [false, 7])
      const granted = await store.acquire(claimOf({ afterTerm: 7 }), call)
      ok(granted.ok)
      strictEqual(granted.record.term, 8)
    },
  },
  {
    name: 'a repeated attempt gets its grant again after the head has its term',
    async run(open) {
      const { store, raise } = await sceneOf(open, 3)
      const first = await store.acquire(claimOf({ afterTerm: 3, expiredVersion: '' }), call)
      ok(first.ok)
      await raise(first.record.term)
      const again = await store.acquire(claimOf({ afterTerm: 3, expiredVersion: '' }), call)
      ok(again.ok)
      deepStrictEqual(again.record, first.record)
    },
  },
  {
    name: 'a call that is aborted while the head is read is never sent',
    async run(open) {
      const inner = memoryStore()
      let answer: (head: { term: number }) => void = () => {}
      const head = new Promise<{ term: number }>((resolve) => (answer = resolve))
      const store = open(inner, { head: () => head as ReturnType<MemoryStorage['head']> })
      const controller = new AbortController()
      const asked = store.acquire(claimOf(), { signal: controller.signal }).catch((error: unknown) => error)
      controller.abort(new Error('given up'))
      answer({ term: 0 })
      deepStrictEqual(await asked, new Error('given up'))
      strictEqual(await inner.read(election, call), undefined)
    },
  },
]
