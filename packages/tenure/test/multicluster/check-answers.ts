import { deepEqual, equal, match } from 'node:assert/strict'
import {
  asLeaseRecord,
  call,
  claimOf,
  grantOf,
  heldClaim,
  recordOf,
  rejected,
  Scene,
  timeoutMs,
  type Checks,
} from './lock-fixture.ts'

/** Checks of which answers a call accepts. */
export const answers: Checks = {
  async 'a call returns when its own id is answered, and not before'(library) {
    const scene = new Scene(library)
    const outcome = await scene.begin(scene.open().acquire(claimOf(), call))
    const { key: own, id } = await scene.request()
    equal(outcome.state, 'pending', 'the call returned without an answer')
    await scene.answer(own, 'another-id', grantOf())
    equal(outcome.state, 'pending', 'the call took the answer for another id')
    await scene.answer('another-key', id, grantOf())
    equal(outcome.state, 'pending', 'the call took the answer for another key')
    await scene.answer(own, id, grantOf())
    deepEqual(outcome.value, { ok: true, record: asLeaseRecord(recordOf()), validForMs: 15_000 })
  },

  async 'an earlier answer in the status does not answer a new call'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    await scene.done(store.acquire(claimOf(), call), grantOf())
    for (const again of [
      () => store.acquire(claimOf(), call),
      () => store.read('nightly', call),
      () => scene.open().acquire(claimOf(), call),
    ]) {
      const outcome = await scene.begin<unknown>(again())
      equal(outcome.state, 'pending', 'the call took an answer that is older than itself')
      await scene.clock.advance(timeoutMs)
      rejected(outcome, 'TIMEOUT', /has no answer after 5000 ms/)
    }
  },

  async 'ids are never reused, and stores never share a key'(library) {
    const scene = new Scene(library)
    const stores = [scene.open(), scene.open()]
    const ids: string[] = []
    const keys = new Set<string>()
    for (const store of [...stores, ...stores]) {
      const outcome = await scene.begin(store.acquire(claimOf(), call))
      for (const request of await scene.requests()) {
        keys.add(request.key)
        if (!ids.includes(request.id)) ids.push(request.id)
      }
      await scene.clock.advance(timeoutMs)
      equal(outcome.state, 'rejected')
    }
    equal(ids.length, 4, `four calls used the ids ${ids.join(', ')}`)
    equal(keys.size, 2, `two stores used the keys ${[...keys].join(', ')}`)
  },

  async 'a malformed answer is ignored, and the call times out with a hint'(library) {
    const malformed: Record<string, object> = {
      'no record': { record: null },
      'another holder': { record: recordOf({ holder: 'west/ada' }) },
      'another attempt': { record: recordOf({ attempt: 'attempt-2' }) },
      'a released record': { record: recordOf({ released: true }) },
      'no version': { record: recordOf({ version: '' }) },
      'a term that is not whole': { record: recordOf({ term: 1.5 }) },
      'metadata that is not JSON': { record: recordOf({ metadata: '{' }) },
      'metadata that is a list': { record: recordOf({ metadata: '[]' }) },
      'no duration': { record: recordOf({ leaseDurationMs: 0 }) },
      'no validity': { validForMs: null },
      'a validity of zero': { validForMs: 0 },
      'a longer validity than requested': { validForMs: 15_001 },
      'a longer validity than the duration in the record': { record: recordOf({ leaseDurationMs: 1_000 }) },
      'neither a grant nor a refusal': { ok: 'yes' },
      'no highest term': { ok: false, validForMs: null },
      'a highest term below the record’s': { ok: false, validForMs: null, highestTerm: 0 },
      'a negative retryAfterMs': { ok: false, validForMs: null, highestTerm: 1, retryAfterMs: -1 },
      'an error without a code': { ok: false, error: { message: 'no' } },
    }
    for (const [what, change] of Object.entries(malformed)) {
      const scene = new Scene(library)
      const outcome = await scene.begin(scene.open().acquire(claimOf(), call))
      const { key: own, id } = await scene.request()
      await scene.answer(own, id, { ...grantOf(), ...change })
      equal(outcome.state, 'pending', `${what}: accepted as an answer`)
      await scene.clock.advance(timeoutMs)
      rejected(outcome, 'TIMEOUT', /Its answer cannot be understood/)
    }
    const scene = new Scene(library)
    const renewal = await scene.begin(scene.open().renew(heldClaim, call))
    const { key: own, id } = await scene.request()
    await scene.answer(own, id, grantOf({ term: 2 }))
    equal(renewal.state, 'pending', 'the renewal accepted another term')
    await scene.answer(own, id, grantOf({ version: 'v2' }))
    equal(renewal.state, 'resolved', 'the corrected answer was not accepted')
  },

  async 'a refusal contains the record, the highest term, and the wait'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    const record = recordOf({ holder: 'west/ada', cluster: 'west', attempt: 'theirs', term: 7, writeId: 'theirs' })
    const refusal = { ok: false, highestTerm: 9, retryAfterMs: 1_234 }
    const outcome = await scene.done(store.acquire(claimOf(), call), { ...refusal, record })
    deepEqual(outcome, { ...refusal, record: asLeaseRecord(record) })
    deepEqual(await scene.done(store.renew(heldClaim, call), { ok: false, highestTerm: 0 }), {
      ok: false,
      highestTerm: 0,
    })
  },

  async 'a call rejects with the error code in its answer'(library) {
    const codes = { TERM_EXHAUSTED: 'TERM_EXHAUSTED', NOT_YET_KNOWN: 'BACKEND_UNAVAILABLE' }
    for (const [code, shown] of Object.entries(codes)) {
      const scene = new Scene(library)
      const outcome = await scene.begin(scene.open().acquire(claimOf(), call))
      const { key: own, id } = await scene.request()
      await scene.answer(own, id, { ok: false, error: { code, message: 'no more terms' } })
      rejected(outcome, shown, /no more terms/)
    }
  },

  async 'a read sends its own request, with a reader identity as the holder'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    equal(await scene.done(store.read('nightly', call), { ok: true }), undefined)
    const { verb, claim } = await scene.request()
    equal(verb, 'read')
    match(claim.holder, /^reader-/)
    const record = recordOf({ writeId: 'm' })
    deepEqual(await scene.done(store.read('nightly', call), { ok: true, record }), asLeaseRecord(record))
  },
}
