import { deepEqual, equal, fail, ok } from 'node:assert/strict'
import { asLeaseRecord, call, heldClaim, key, recordOf, Scene, type Checks } from './lock-fixture.ts'

/** Checks of the watch of the lock. */
export const watching: Checks = {
  async 'a watch begins with a read and then follows the status'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    const records = store.watch?.('nightly', call)[Symbol.asyncIterator]() ?? fail('no watch')
    const first = await scene.begin(records.next())
    const { key: own, id } = await scene.request()
    await scene.answer(own, id, { ok: true, record: recordOf() })
    deepEqual(first.value?.value, asLeaseRecord(recordOf()))
    const second = await scene.begin(records.next())
    equal(second.state, 'pending', 'the watch yielded without a change')
    await scene.status({ record: recordOf({ term: 2, version: 'v2', holder: 'west/bob', cluster: 'west' }) })
    equal(second.value?.value?.holder, 'west/bob')
    const third = await scene.begin(records.next())
    await scene.status({ record: recordOf({ term: 1, version: 'v1' }) })
    equal(third.state, 'pending', 'the watch yielded a lower term')
    await scene.status({ record: null })
    deepEqual(third.value, { done: false, value: undefined })
    await records.return?.()
  },

  async 'a watch does not yield an older state when a response from the API server arrives late'(library) {
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
    equal(after.state, 'pending', 'the watch yielded the previous state')
    await store.close?.()
    await scene.settle()
    deepEqual(after.value, { done: true, value: undefined })
  },

  async 'a watch that nobody reads ends when its signal aborts or its store is closed'(library) {
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

  async 'a watch does not report that there is no leader when the resource is recreated'(library) {
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

  async 'a watch sends a new read after two leases without an event'(library) {
    const scene = new Scene(library)
    const records = scene.open().watch?.('nightly', call)[Symbol.asyncIterator]() ?? fail('no watch')
    await scene.done(records.next(), { ok: true, record: recordOf() })
    const first = await scene.request()
    const next = await scene.begin(records.next())
    await scene.clock.advance(30_000)
    const second = await scene.request()
    ok(second.id !== first.id, 'the watch sent no new request')
    await scene.answer(second.key, second.id, { ok: true, record: recordOf({ version: 'v9' }) })
    equal(next.value?.value?.version, 'v9')
    await records.return?.()
  },
}
