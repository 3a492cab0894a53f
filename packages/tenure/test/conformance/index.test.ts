import { describe, expect, test } from 'vitest'
import { storeConformance, type StoreUnderTest } from '../../src/conformance/index.ts'
import type { LeaseStore } from '../../src/lease-store.ts'
import { casStore, type CompareAndSwap } from '../../src/stores/cas.ts'
import { memoryTtlStorage } from '../../src/stores/memory-ttl.ts'
import { memoryStore } from '../../src/stores/memory.ts'
import { ttlStore } from '../../src/stores/ttl.ts'
import { fakeClock } from '../../src/testing/index.ts'
import { CasMap } from './cas-map.ts'

function memory(change: Partial<StoreUnderTest> = {}): StoreUnderTest {
  const clock = fakeClock()
  const store = memoryStore({ clock })
  return { store, pass: clock.advance, remove: store.delete, ...change }
}

function caseNamed(wanted: string, makeStore: () => StoreUnderTest, patienceMs = 5_000) {
  const found = storeConformance(makeStore, { patienceMs }).find(({ name }) => name === wanted)
  if (!found) throw new Error(`There is no case "${wanted}".`)
  return found
}

describe('the conformance suite', () => {
  test('names each case once', () => {
    const names = storeConformance(() => memory()).map(({ name }) => name)
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
  })

  test('has cases without parameters, for runners that would pass a callback', () => {
    expect(storeConformance(() => memory()).filter(({ run }) => run.length > 0)).toEqual([])
  })

  test('has no case that every store skips', async () => {
    const clock = fakeClock()
    const storage = memoryTtlStorage<string, string>({ clock })
    const map = new CasMap()
    const stores = [
      () => memory(),
      () => ({
        store: casStore(map.backend(), { clock }),
        open: () => casStore(map.backend(), { clock }),
        pass: clock.advance,
        forgetsTerms: true,
      }),
      () => ({ store: ttlStore(storage, { clock }), pass: clock.advance }),
    ]
    const skipped = new Map<string, number>()
    const count = (name: string) => skipped.set(name, (skipped.get(name) ?? 0) + 1)
    for (const makeStore of stores) {
      for (const { name, run } of storeConformance(makeStore)) await run({ skip: () => count(name) })
    }
    expect([...skipped].filter(([, times]) => times === stores.length)).toEqual([])
    expect(skipped.size).toBeGreaterThan(0)
  })

  test('tells the runner why a case does not apply', async () => {
    const reasons: string[] = []
    const one = caseNamed('a held lease is not free to a candidate that watched nothing', () => memory())
    await one.run({ skip: (reason) => reasons.push(reason) })
    await one.run()
    expect(reasons).toEqual(['the store judges expiry itself'])
  })

  test('closes the store after a case, also when it fails, is skipped or throws', async () => {
    let closed = 0
    const close = () => void closed++
    const broken: LeaseStore = { ...memoryStore(), acquire: () => Promise.reject(new Error('no connection')) }
    await caseNamed('a released lease is free at once', () => memory({ close })).run()
    await caseNamed('a held lease is not free to a candidate that watched nothing', () => memory({ close })).run()
    const failing = caseNamed('a released lease is free at once', () => memory({ close, store: broken }))
    await expect(failing.run()).rejects.toThrow('no connection')
    expect(closed).toBe(3)
  })

  test('tells which call of a store hangs', async () => {
    const hanging: LeaseStore = { ...memoryStore(), renew: () => new Promise(() => {}) }
    const one = caseNamed('a renewal keeps the grant and makes a new version', () => ({ store: hanging }), 20)
    await expect(one.run()).rejects.toThrow('renew did not settle within 20 ms.')
  })

  test('fails a backend that cuts values at 2,000 characters', async () => {
    const backend = new CasMap().backend()
    const cutting: CompareAndSwap = {
      ...backend,
      putIfVersion: (election, value, ...rest) => backend.putIfVersion(election, value.slice(0, 2_000), ...rest),
    }
    const makeStore = () => ({ store: casStore(cutting), forgetsTerms: true })
    const failed: string[] = []
    for (const { name, run } of storeConformance(makeStore, { leaseDurationMs: 20 })) {
      await run().catch(() => failed.push(name))
    }
    expect(failed).toEqual([
      'the largest record comes back as it was given, in text of four bytes a character',
      'the largest record comes back as it was given, in text that JSON escapes',
    ])
  })

  test('says what it expected and what it got', async () => {
    const inner = memoryStore()
    const forgetful: LeaseStore = {
      ...inner,
      acquire: (claim, options) => inner.acquire({ ...claim, metadata: { lost: true } }, options),
    }
    const one = caseNamed('holder and metadata come back as they were given', () => ({ store: forgetful }))
    await expect(one.run()).rejects.toThrow(/^The grant’s metadata is \{"lost":true\}, expected \{"nested":/)
  })
})
