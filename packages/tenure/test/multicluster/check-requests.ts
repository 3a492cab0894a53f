import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { follow } from '../promise-outcome.ts'
import { call, claimOf, grantOf, heldClaim, Scene, timeoutMs, type Checks } from './lock-fixture.ts'

/** Checks of the requests that a call writes. */
export const requests: Checks = {
  async 'a request contains the whole claim and nothing of the previous one'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    const fields = { holder: 'ada', attempt: 'attempt-1', leaseDurationMs: 15_000, afterTerm: 0 }
    const common = { ...fields, metadata: '{"zone":"a"}', writeId: 'mark-1' }
    for (const expiredVersion of ['v7', '', undefined]) {
      const given = expiredVersion === undefined ? {} : { expiredVersion }
      await scene.done(store.acquire(claimOf(given), call), grantOf())
      const { verb, claim, timeoutMs: waits } = await scene.request()
      deepEqual([verb, claim, waits], ['acquire', { ...common, ...given }, timeoutMs])
    }
    const held = { holder: 'ada', attempt: 'attempt-1', leaseDurationMs: 15_000, term: 1, version: 'v1' }
    await scene.done(store.renew({ ...heldClaim, checkpoint: '', writeId: 'mark-2' }, call), grantOf())
    deepEqual((await scene.request()).claim, { ...held, checkpoint: '', writeId: 'mark-2' })
    await scene.done(store.renew(heldClaim, call), grantOf())
    deepEqual((await scene.request()).claim, held)
    await scene.done(store.release(heldClaim, call), grantOf({ released: true }))
    const { verb, claim } = await scene.request()
    deepEqual([verb, claim], ['release', held])
    await scene.done(store.release({ ...heldClaim, successor: 'west/bob' }, call), grantOf({ released: true }))
    deepEqual((await scene.request()).claim, { ...held, successor: 'west/bob' })
    await scene.done(store.renew(heldClaim, call), grantOf())
    deepEqual((await scene.request()).claim, held)
  },

  async 'every request also refreshes the spec heartbeat, with the same time'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    await scene.done(store.acquire(claimOf({ leaseDurationMs: 14_200 }), call), {
      ...grantOf({ leaseDurationMs: 14_200 }),
      validForMs: 14_200,
    })
    await scene.clock.advance(1_500)
    await scene.done(store.read('nightly', call), { ok: true })
    const { spec } = await scene.resource()
    const { renewTime } = await scene.request()
    equal(renewTime, '2030-01-01T00:00:01.500000Z')
    deepEqual({ ...spec, requests: {} }, { holderIdentity: 'ada', leaseDurationSeconds: 15, renewTime, requests: {} })
  },

  async 'a call keeps the keys of other stores and removes those listed as silent'(library) {
    const scene = new Scene(library)
    const [store, other] = [scene.open(), scene.open()]
    await scene.done(other.acquire(claimOf(), call), grantOf())
    const { key: others, ...theirs } = await scene.request()
    await scene.begin(store.acquire(claimOf({ holder: 'bob' }), call))
    const { spec } = await scene.resource()
    deepEqual(spec.requests[others], theirs)
    await scene.clock.advance(timeoutMs)
    await scene.status({ silent: [others, 'long-gone'] })
    await scene.begin(store.acquire(claimOf({ holder: 'bob' }), call))
    await scene.begin(store.acquire(claimOf({ holder: 'bob' }), call))
    const left = (await scene.requests()).map((request) => request.key)
    ok(!left.includes(others), 'the silent key was not removed')
    equal(left.length, 2)
  },

  async 'concurrent calls use separate slots, and calls beyond eight wait for a slot'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    const calls = Array.from({ length: 10 }, () =>
      follow(store.read('nightly', { ...call, signal: new AbortController().signal })),
    )
    await scene.settle()
    const first = await scene.requests()
    equal(first.length, 8, 'eight calls are in flight')
    for (const { key: own, id } of first) await scene.answer(own, id, { ok: true })
    equal(calls.filter(({ state }) => state === 'resolved').length, 8)
    const second = (await scene.requests()).filter(({ id }) => !first.some((one) => one.id === id))
    deepEqual(
      second.map((request) => request.key).toSorted(),
      first.slice(0, 2).map((request) => request.key),
      'the lowest slots are used again',
    )
    for (const { key: own, id } of second) await scene.answer(own, id, { ok: true })
    ok(calls.every(({ state }) => state === 'resolved'))
  },

  async 'a call that is aborted while it waits for a slot does not block others'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    const ending = new AbortController()
    const newCall = () => ({ ...call, signal: new AbortController().signal })
    const first = Array.from({ length: 8 }, () => follow(store.read('nightly', newCall())))
    const waiting = [follow(store.read('nightly', newCall()))]
    const given = follow(store.read('nightly', { ...call, signal: ending.signal }))
    waiting.push(follow(store.read('nightly', newCall())))
    await scene.settle()
    ending.abort()
    await scene.settle()
    equal(given.state, 'rejected')
    const [one, two, ...others] = await scene.requests()
    for (const request of [one, two]) await scene.answer(request?.key ?? '', request?.id ?? '', { ok: true })
    equal(first.filter(({ state }) => state === 'resolved').length, 2)
    for (const { key: own, id } of await scene.requests()) {
      if (!others.some((other) => other.id === id)) await scene.answer(own, id, { ok: true })
    }
    deepEqual(
      waiting.map(({ state }) => state),
      ['resolved', 'resolved'],
    )
  },

  async 'an aborted call frees its slot, and its late answer does not answer the next call'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    const ending = new AbortController()
    const given = await scene.begin(store.acquire(claimOf(), { ...call, signal: ending.signal }))
    const first = await scene.request()
    ending.abort(new Error('enough'))
    await scene.settle()
    equal((given.error as Error).message, 'enough')
    const next = await scene.begin(store.acquire(claimOf(), call))
    const second = await scene.request()
    equal(second.key, first.key)
    await scene.answer(first.key, first.id, grantOf())
    equal(next.state, 'pending')
    await scene.answer(second.key, second.id, grantOf())
    equal(next.state, 'resolved')
  },

  async 'an identity with a slash is rejected before anything is written'(library) {
    const scene = new Scene(library)
    const outcome = await scene.begin(scene.open().acquire(claimOf({ holder: 'west/ada' }), call))
    equal((outcome.error as { code?: string } | undefined)?.code, 'INVALID_OPTION')
    deepEqual(scene.asked, [])
  },

  async 'an election name that is not a valid resource name is stored under a hash, together with the name'(library) {
    const scene = new Scene(library)
    await scene.begin(scene.open().read('Nightly Report', call))
    const [resource] = scene.resources.backup()
    match(resource?.name ?? '', /^h--[0-9a-f]{64}$/)
    equal(resource?.election, 'Nightly Report')
  },
}
