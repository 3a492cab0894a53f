import { describe, expect, test } from 'vitest'
import { storeConformance, type StoreUnderTest } from '../../src/conformance/index.ts'
import type { LeaseStore } from '../../../tenure/src/engine/lease-store.ts'
import { casStore, type CompareAndSwap } from '../../../tenure/src/store-kit/cas-store.ts'
import { memoryTtlStorage } from '../../../tenure/src/store-kit/memory-ttl-storage.ts'
import { memoryStore } from '../../../tenure/src/stores/memory/index.ts'
import { ttlStore } from '../../../tenure/src/store-kit/ttl-store.ts'
import { fakeClock } from '../../src/index.ts'
import { CasMap } from './cas-map.ts'

function memory(change: Partial<StoreUnderTest> = {}): StoreUnderTest {
  const clock = fakeClock()
  const store = memoryStore({ clock })
  return { store, pass: clock.advance, remove: store.delete, ...change }
}

function caseNamed(wanted: string, makeStore: () => StoreUnderTest, patienceMs = 5_000) {
  const found = storeConformance(makeStore, { patienceMs }).find(({ name }) => name === wanted)
  if (!found) throw new Error(`The conformance suite has no case "${wanted}".`)
  return found
}

describe('the conformance suite', () => {
  test('the conformance suite names each case once', () => {
    const names = storeConformance(() => memory()).map(({ name }) => name)
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
  })

  test('the cases of the conformance suite take no parameters, because some runners pass a callback to a parameter', () => {
    expect(storeConformance(() => memory()).filter(({ run }) => run.length > 0)).toEqual([])
  })

  test('every case of the conformance suite applies to at least one store', async () => {
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

  test('a skipped case reports to the runner why it does not apply', async () => {
    const reasons: string[] = []
    const one = caseNamed('acquire of a held lease is refused without expiredVersion', () => memory())
    await one.run({ skip: (reason) => reasons.push(reason) })
    await one.run()
    expect(reasons).toEqual(['the store judges expiry itself'])
  })

  test('a case closes the store when it passes, fails, throws, or is skipped', async () => {
    let closed = 0
    const close = () => void closed++
    const broken: LeaseStore = { ...memoryStore(), acquire: () => Promise.reject(new Error('no connection')) }
    await caseNamed('a released lease can be acquired at once', () => memory({ close })).run()
    await caseNamed('acquire of a held lease is refused without expiredVersion', () => memory({ close })).run()
    const failing = caseNamed('a released lease can be acquired at once', () => memory({ close, store: broken }))
    await expect(failing.run()).rejects.toThrow('no connection')
    expect(closed).toBe(3)
  })

  test('the error of a failed case names the store call that hangs', async () => {
    const hanging: LeaseStore = { ...memoryStore(), renew: () => new Promise(() => {}) }
    const one = caseNamed('a renewal keeps the grant and creates a new version', () => ({ store: hanging }), 20)
    await expect(one.run()).rejects.toThrow('renew did not settle within 20 ms.')
  })

  test('the conformance suite fails a backend that truncates values at 2,000 characters', async () => {
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
      'the largest record is stored unchanged when its text takes four bytes per character',
      'the largest record is stored unchanged when its text needs JSON escapes',
    ])
  })

  test('a failing case reports the expected value and the actual value', async () => {
    const inner = memoryStore()
    const forgetful: LeaseStore = {
      ...inner,
      acquire: (claim, options) => inner.acquire({ ...claim, metadata: { lost: true } }, options),
    }
    const one = caseNamed('holder and metadata are stored unchanged', () => ({ store: forgetful }))
    await expect(one.run()).rejects.toThrow(/^The grant’s metadata is \{"lost":true\}, expected \{"nested":/)
  })
})
