import { deepEqual, equal } from 'node:assert/strict'
import { Elector } from '../../../src/engine/elector.ts'
import type { ElectionEvent } from '../../../src/engine/events.ts'
import { makeGate } from '../../fencing/gate.ts'
import { call, claimOf, codeOf, granted, withFaultProxy, type Checks } from './cloud-checks.ts'

/** Checks of a grant that takes two writes. `putOfTerm` matches the request that writes a term. */
export function termChecks(putOfTerm: RegExp): Checks<object> {
  const denied = { pattern: putOfTerm, status: 403 }
  return {
    async 'acquire grants nothing to a process that may not record terms'(library) {
      await withFaultProxy(library, async (front) => {
        front.refuseSome = denied
        const store = library.open({ url: front.url })
        const claim = claimOf()
        equal(await codeOf(store.acquire(claim, call)), 'UNAUTHORIZED')
        equal(await store.read(claim.election, call), undefined)
        equal(await codeOf(store.acquire(claim, call)), 'UNAUTHORIZED')
        // With the permission restored, the attempt is granted, and its term survives the removal of the record.
        front.refuseSome = undefined
        equal(granted(await store.acquire(claim, call)).term, 1)
        await library.remove(claim.election)
        const refusal = await library.open().acquire(claimOf({ election: claim.election }), call)
        deepEqual(refusal, { ok: false, highestTerm: 1, retryAfterMs: claim.leaseDurationMs })
      })
    },

    async 'a process that may not record terms is never elected'(library) {
      await withFaultProxy(library, async (front) => {
        front.refuseSome = denied
        const { election } = claimOf()
        const store = library.open({ url: front.url })
        const types: string[] = []
        const codes: unknown[] = []
        const enough = makeGate()
        const onEvent = (event: ElectionEvent) => {
          types.push(event.type)
          if (event.type === 'elected') enough.open()
          // The first acquire, then its repetitions after a read. The attempt is in the record the whole time.
          if (event.type === 'error' && codes.push(Reflect.get(Object(event.error), 'code')) === 3) enough.open()
        }
        const options = { leaseDurationMs: 15_000, retryIntervalMs: 100, releaseOnStop: false }
        const elector = new Elector({ store, election, ...options, observer: { onEvent } })
        elector.start()
        await enough.opened
        await elector.stop()
        deepEqual([types.includes('elected'), ...new Set(codes)], [false, 'UNAUTHORIZED'])
      })
    },

    async 'a read-only role sees a grant once its term is recorded'(library) {
      await withFaultProxy(library, async (front) => {
        front.refuseSome = denied
        const reader = library.open({ url: front.url })
        const claim = claimOf()
        equal(await codeOf(library.open({ url: front.url }).acquire(claim, call)), 'UNAUTHORIZED')
        equal(await reader.read(claim.election, call), undefined)
        const { record } = await library.open().acquire(claim, call)
        deepEqual(await reader.read(claim.election, call), record)
      })
    },

    async 'a found grant is not shown when recording its term fails for a reason other than a missing permission'(
      library,
    ) {
      await withFaultProxy(library, async (front) => {
        front.refuseSome = denied
        const claim = claimOf()
        equal(await codeOf(library.open({ url: front.url }).acquire(claim, call)), 'UNAUTHORIZED')
        front.refuseSome = { pattern: putOfTerm, status: 500 }
        const store = library.open({ url: front.url })
        equal(await codeOf(store.read(claim.election, call), 20_000), 'BACKEND_UNAVAILABLE')
        equal(await codeOf(store.acquire(claim, call), 20_000), 'BACKEND_UNAVAILABLE')
      })
    },
  }
}
