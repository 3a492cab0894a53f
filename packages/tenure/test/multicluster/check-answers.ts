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
} from './lock-scene.ts'

/** What a call takes for its answer. */
export const answers: Checks = {
  async 'a call returns when its own id is answered, and not before'(library) {
    const scene = new Scene(library)
    const outcome = await scene.begin(scene.open().acquire(claimOf(), call))
    const { key: own, id } = await scene.request()
    equal(outcome.state, 'pending', 'nobody has answered')
    await scene.answer(own, 'another-id', grantOf())
    equal(outcome.state, 'pending', 'another id was answered')
    await scene.answer('another-key', id, grantOf())
    equal(outcome.state, 'pending', 'another key was answered')
    await scene.answer(own, id, grantOf())
    deepEqual(outcome.value, { ok: true, record: asLeaseRecord(recordOf()), validForMs: 15_000 })
  },

  async 'no call is answered by what was answered before'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    await scene.done(store.acquire(claimOf(), call), grantOf())
    for (const again of [
      () => store.acquire(claimOf(), call),
      () => store.read('nightly', call),
      () => scene.open().acquire(claimOf(), call),
    ]) {
      const outcome = await scene.begin<unknown>(again())
      equal(outcome.state, 'pending', 'the status is older than the call')
      await scene.clock.advance(timeoutMs)
      rejected(outcome, 'TIMEOUT', /has no answer after 5000 ms/)
    }
  },

  async 'no id is used twice, and no two stores share a key'(library) {
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
    equal(ids.length, 4, `four calls had the ids ${ids.join(', ')}`)
    equal(keys.size, 2, `two stores had the keys ${[...keys].join(', ')}`)
  },

  async 'what is not understood is no answer, and the deadline tells'(library) {
    const malformed: Record<string, object> = {
      'no record': { record: null },
      'another holder': { record: recordOf({ holder: 'west/ada' }) },
      'another attempt': { record: recordOf({ attempt: 'attempt-2' }) },
      'a released record': { record: recordOf({ released: true }) },
      'no version': { record: recordOf({ version: '' }) },
      'a term that is not whole': { record: recordOf({ term: 1.5 }) },
      'metadata that are not JSON': { record: recordOf({ metadata: '{' }) },
      'metadata that are a list': { record: recordOf({ metadata: '[]' }) },
      'no duration': { record: recordOf({ leaseDurationMs: 0 }) },
      'no validity': { validForMs: null },
      'a validity of nothing': { validForMs: 0 },
      'more validity than was asked for': { validForMs: 15_001 },
      'more validity than the record has': { record: recordOf({ leaseDurationMs: 1_000 }) },
      'neither yes nor no': { ok: 'yes' },
      'no highest term': { ok: false, validForMs: null },
      'a highest term below the record’s': { ok: false, validForMs: null, highestTerm: 0 },
      'a negative wait': { ok: false, validForMs: null, highestTerm: 1, retryAfterMs: -1 },
      'an error without a code': { ok: false, error: { message: 'no' } },
    }
    for (const [what, change] of Object.entries(malformed)) {
      const scene = new Scene(library)
      const outcome = await scene.begin(scene.open().acquire(claimOf(), call))
      const { key: own, id } = await scene.request()
      await scene.answer(own, id, { ...grantOf(), ...change })
      equal(outcome.state, 'pending', `${what}: it was taken for an answer`)
      await scene.clock.advance(timeoutMs)
      rejected(outcome, 'TIMEOUT', /Its answer cannot be understood/)
    }
    const scene = new Scene(library)
    const renewal = await scene.begin(scene.open().renew(heldClaim, call))
    const { key: own, id } = await scene.request()
    await scene.answer(own, id, grantOf({ term: 2 }))
    equal(renewal.state, 'pending', 'it was renewed in a term that it does not hold')
    await scene.answer(own, id, grantOf({ version: 'v2' }))
    equal(renewal.state, 'resolved', 'the answer was written again, and is understood now')
  },

  async 'a refusal brings the record, the highest term and the wait'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    const record = recordOf({ holder: 'west/ada', cluster: 'west', attempt: 'theirs', term: 7, mark: 'theirs' })
    const refusal = { ok: false, highestTerm: 9, retryAfterMs: 1_234 }
    const outcome = await scene.done(store.acquire(claimOf(), call), { ...refusal, record })
    deepEqual(outcome, { ...refusal, record: asLeaseRecord(record) })
    deepEqual(await scene.done(store.renew(heldClaim, call), { ok: false, highestTerm: 0 }), {
      ok: false,
      highestTerm: 0,
    })
  },

  async 'what can never be carried out rejects with the code that was answered'(library) {
    const codes = { TERM_EXHAUSTED: 'TERM_EXHAUSTED', NOT_YET_KNOWN: 'BACKEND_UNAVAILABLE' }
    for (const [code, shown] of Object.entries(codes)) {
      const scene = new Scene(library)
      const outcome = await scene.begin(scene.open().acquire(claimOf(), call))
      const { key: own, id } = await scene.request()
      await scene.answer(own, id, { ok: false, error: { code, message: 'no more terms' } })
      rejected(outcome, shown, /no more terms/)
    }
  },

  async 'a read is a request of its own'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    equal(await scene.done(store.read('nightly', call), { ok: true }), undefined)
    const { verb, claim } = await scene.request()
    equal(verb, 'read')
    match(claim.holder, /^reader-/)
    const record = recordOf({ mark: 'm' })
    deepEqual(await scene.done(store.read('nightly', call), { ok: true, record }), asLeaseRecord(record))
  },
}
