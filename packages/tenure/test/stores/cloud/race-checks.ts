import { deepEqual } from 'node:assert/strict'
import { held } from '../../../../testing/src/conformance/scene.ts'
import { call, claimOf, granted, withFaultProxy, type Checks } from './cloud-checks.ts'

/**
 * Two writes of one object that are both in flight when the server sees the first. The race in the conformance suite
 * depends on timing, but this one does not. `putOfRecord` matches the request that writes a record.
 */
export function raceChecks(putOfRecord: RegExp): Checks<object> {
  const hold = { pattern: putOfRecord, count: 2 }
  return {
    async 'exactly one of two concurrent creates of a record wins'(library) {
      await withFaultProxy(library, async (front) => {
        const { election } = claimOf()
        const stores = [library.open({ url: front.url }), library.open({ url: front.url })]
        front.hold = hold
        const outcomes = await Promise.all(stores.map((store) => store.acquire(claimOf({ election }), call)))
        deepEqual(outcomes.map(({ ok }) => ok).toSorted(), [false, true])
      })
    },

    async 'exactly one of two concurrent renewals of a version wins'(library) {
      await withFaultProxy(library, async (front) => {
        const stores = [library.open({ url: front.url }), library.open({ url: front.url })]
        const record = granted(await library.open().acquire(claimOf(), call))
        front.hold = hold
        const outcomes = await Promise.all(stores.map((store) => store.renew(held(record), call)))
        deepEqual(outcomes.map(({ ok }) => ok).toSorted(), [false, true])
      })
    },
  }
}
