import { deepEqual, equal, fail, ok } from 'node:assert/strict'
import { asLeaseRecord, call, heldClaim, key, recordOf, Scene, type Checks } from './lock-scene.ts'

/** What a watch of the lock shows. */
export const watching: Checks = {
  async 'a watch begins with a read, then shows what the status does'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    const records = store.watch?.('nightly', call)[Symbol.asyncIterator]() ?? fail('no watch')
    const first = await scene.begin(records.next())
    const { key: own, id } = await scene.request()
    await scene.answer(own, id, { ok: true, record: recordOf() })
    deepEqual(first.value?.value, asLeaseRecord(recordOf()))
    const second = await scene.begin(records.next())
    equal(second.state, 'pending', 'nothing has changed')
    await scene.status({ record: recordOf({ term: 2, version: 'v2', holder: 'west/bob', cluster: 'west' }) })
    equal(second.value?.value?.holder, 'west/bob')
    const third = await scene.begin(records.next())
    await scene.status({ record: recordOf({ term: 1, version: 'v1' }) })
    equal(third.state, 'pending', 'a lower term is an old one')
    await scene.status({ record: null })
    deepEqual(third.value, { done: false, value: undefined })
    await records.return?.()
  },

  async 'a watch does not go back to what a late answer of the API server shows'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    const records = store.watch?.('nightly', call)[Symbol.asyncIterator]() ?? fail('no watch')
    await scene.done(records.next(), { ok: true, record: recordOf() })
    let late = () => {}
    scene.fault = {
      patchSpec: async (...args) => {
        const patched = await scene.resources.patchSpec(...args)
        await new Promise<void>((resolve) => (late = resolve))
        return patched
      },
    }
    await scene.begin(store.renew(heldClaim, call))
    const next = await scene.begin(records.next())
    await scene.status({ record: recordOf({ version: 'v2', released: true }) })
    equal(next.value?.value?.version, 'v2')
    const after = await scene.begin(records.next())
    late()
    await scene.settle()
    equal(after.state, 'pending', 'it showed the state of before')
    await store.close?.()
    await scene.settle()
    deepEqual(after.value, { done: true, value: undefined })
  },

  async 'a watch whose reader does not come back ends with its signal, and with the store'(library) {
    for (const end of ['signal', 'close'] as const) {
      const scene = new Scene(library)
      const store = scene.open()
      const ending = new AbortController()
      const records = store.watch?.('nightly', { signal: ending.signal })[Symbol.asyncIterator]() ?? fail('no watch')
      await scene.done(records.next(), { ok: true, record: recordOf() })
      await scene.clock.advance(2_000)
      equal(scene.watches, 1)
      if (end === 'signal') ending.abort()
      else await store.close?.()
      await scene.settle()
      equal(scene.watches, 0, `by ${end}`)
    }
  },

  async 'a resource that was created again does not tell that nobody leads'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    const records = store.watch?.('nightly', call)[Symbol.asyncIterator]() ?? fail('no watch')
    await scene.done(records.next(), { ok: true, record: recordOf() })
    const next = await scene.begin(records.next())
    scene.resources.delete(key)
    await scene.resources.create(key, { requests: {} }, undefined, call)
    await scene.settle()
    equal(next.state, 'pending')
    await scene.status({ record: recordOf({ version: 'v2' }) })
    equal(next.value?.value?.version, 'v2')
    await records.return?.()
  },

  async 'a watch that shows nothing for two leases asks again'(library) {
    const scene = new Scene(library)
    const records = scene.open().watch?.('nightly', call)[Symbol.asyncIterator]() ?? fail('no watch')
    await scene.done(records.next(), { ok: true, record: recordOf() })
    const first = await scene.request()
    const next = await scene.begin(records.next())
    await scene.clock.advance(30_000)
    const second = await scene.request()
    ok(second.id !== first.id, 'it asked for nothing')
    await scene.answer(second.key, second.id, { ok: true, record: recordOf({ version: 'v9' }) })
    equal(next.value?.value?.version, 'v9')
    await records.return?.()
  },
}
