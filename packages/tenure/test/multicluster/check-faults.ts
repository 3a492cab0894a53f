import { deepEqual, equal, ok } from 'node:assert/strict'
import { ApiError } from '../../src/clients/kubernetes/api-error.ts'
import type { StatusPatch } from '../../src/multicluster/protocol/resource-types.ts'
import type { Resources } from '../../src/multicluster/resources.ts'
import { follow } from '../promise-outcome.ts'
import { call, claimOf, grantOf, heldClaim, key, rejected, Scene, timeoutMs, type Checks } from './lock-fixture.ts'

/** Checks of calls when something is missing, late, or refused. */
export const faults: Checks = {
  async 'deleting the resource rejects the calls in flight at once, and the next call recreates it'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    await scene.done(store.acquire(claimOf(), call), grantOf())
    const renewal = await scene.begin(store.renew(heldClaim, call))
    scene.resources.delete(key)
    await scene.settle()
    ok(rejected(renewal, 'BACKEND_UNAVAILABLE', /was deleted before the call was answered/).retryable)
    const again = await scene.done(store.renew(heldClaim, call), grantOf({ version: 'v2' }))
    ok(again.ok)
    deepEqual(
      scene.asked.filter((what) => what === 'create' || what === 'patch'),
      ['patch', 'create', 'patch', 'patch', 'create'],
    )
  },

  async 'an answer that arrives together with the deletion is accepted'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    const outcome = await scene.begin(store.acquire(claimOf(), call))
    const { key: own, id } = await scene.request()
    const { uid } = await scene.resource()
    const answered = scene.resources.patchStatus(
      { ...key, uid },
      { answers: { [own]: { ...grantOf(), id } } },
      undefined,
      call,
    )
    scene.resources.delete(key)
    await answered
    await scene.settle()
    equal(outcome.state, 'resolved')
  },

  async 'two stores that create the resource at the same time both get an answer'(library) {
    const scene = new Scene(library)
    const calls = [scene.open(), scene.open()].map((store) => follow(store.read('nightly', call)))
    await scene.settle()
    const both = await scene.requests()
    equal(both.length, 2)
    for (const { key: own, id } of both) await scene.answer(own, id, { ok: true })
    ok(calls.every(({ state }) => state === 'resolved'))
  },

  async 'a call finds its answer by reading the resource when the watch is silent or broken'(library) {
    // oxlint-disable-next-line require-yield
    const silent: Resources['watch'] = async function* (_of, { signal }) {
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
    }
    // oxlint-disable-next-line require-yield
    const broken: Resources['watch'] = async function* () {
      throw new Error('no watch')
    }
    const deaf: Resources['watch'] = async function* (of, options) {
      yield { type: 'all', resources: [] }
      yield* silent(of, options)
    }
    for (const watch of [silent, broken, deaf]) {
      const scene = new Scene(library)
      scene.fault = { watch }
      const outcome = await scene.begin(scene.open().acquire(claimOf(), call))
      const { key: own, id } = await scene.request()
      await scene.answer(own, id, grantOf())
      await scene.clock.advance(watch === deaf ? 1_000 : 50)
      equal(outcome.state, 'resolved')
    }
  },

  async 'without permission to watch, the store polls with growing pauses and does not try the watch again'(library) {
    const scene = new Scene(library)
    scene.fault = {
      // oxlint-disable-next-line require-yield
      watch: async function* () {
        throw new ApiError('A watch could not be opened', { status: 403, body: undefined })
      },
    }
    const store = scene.open()
    const outcome = await scene.begin(store.acquire(claimOf(), { ...call, timeoutMs: 10_000 }))
    await scene.clock.advance(10_000)
    rejected(outcome, 'TIMEOUT', /No controller has ever answered/)
    const reads = scene.asked.filter((what) => what === 'get').length
    ok(reads >= 8 && reads <= 15, `${reads} reads in 10 s`)
    const again = await scene.begin(store.acquire(claimOf(), call))
    const { key: own, id } = await scene.request()
    await scene.answer(own, id, grantOf())
    await scene.clock.advance(50)
    equal(again.state, 'resolved')
    equal(scene.asked.filter((what) => what === 'watch').length, 1)
    const records = store.watch?.('nightly', call)[Symbol.asyncIterator]()
    deepEqual(await records?.next(), { done: true, value: undefined }, 'the engine polls')
  },

  async 'all calls share one watch, which stays open between renewals and closes after a release'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    await scene.done(store.acquire(claimOf(), call), grantOf())
    for (let renewals = 0; renewals < 3; renewals++) {
      await scene.clock.advance(5_000)
      equal(scene.watches, 1)
      await scene.done(store.renew(heldClaim, call), grantOf())
    }
    await scene.done(store.release(heldClaim, call), grantOf({ released: true }))
    await scene.settle()
    equal(scene.watches, 0)
    deepEqual(scene.asked, ['watch', 'patch', 'create', 'patch', 'patch', 'patch', 'patch'])
    await scene.done(store.renew(heldClaim, call), grantOf())
    await scene.clock.advance(15_000)
    equal(scene.watches, 0, 'the watch closes when the leader stops renewing')
    equal(scene.clock.timers, 0)
    await scene.done(store.renew(heldClaim, call), grantOf())
    await store.close?.()
    await scene.settle()
    equal(scene.watches, 0)
    equal(scene.clock.timers, 0)
  },

  async 'all requests of a call share one deadline'(library) {
    const scene = new Scene(library)
    const waits: (number | undefined)[] = []
    scene.fault = {
      async patchSpec(_key, _patch, options) {
        waits.push(options.timeoutMs)
        await new Promise<void>((resolve) => void scene.clock.setTimer(3_000, resolve))
        return undefined
      },
      create(_key, _spec, _election, options) {
        waits.push(options.timeoutMs)
        return new Promise(() => undefined)
      },
    }
    const outcome = await scene.begin(scene.open().read('nightly', call))
    await scene.clock.advance(timeoutMs - 1)
    equal(outcome.state, 'pending')
    await scene.clock.advance(1)
    ok(rejected(outcome, 'TIMEOUT', /has not confirmed that the request was written/).retryable)
    deepEqual(waits, [5_000, 2_000])
    await scene.clock.advance(1_000)
    equal(scene.clock.timers, 0, 'no timer is left')
  },

  async 'a timeout error says what is known about the controller'(library) {
    const condition = { observedGeneration: 1, lastTransitionTime: '2030-01-01T00:00:00Z', status: 'False' } as const
    const unreachable = {
      ...condition,
      type: 'BackendHealthy',
      reason: 'Unreachable',
      message: 'etcd is away',
    } as const
    const mixed = { ...condition, type: 'Ready', reason: 'MixedCandidates', message: 'two kinds' } as const
    const known: [StatusPatch, RegExp][] = [
      [
        {},
        /No controller has ever answered there\. Is "tenure controller" running in this cluster, for namespace "jobs"\?/,
      ],
      [{ observedGeneration: 1 }, /A controller has answered before\. Is "tenure controller" running/],
      [{ conditions: [mixed] }, /The controller reports: MixedCandidates: two kinds/],
      [{ conditions: [mixed, unreachable] }, /cannot use the global store: Unreachable: etcd is away/],
    ]
    for (const [status, words] of known) {
      const scene = new Scene(library)
      const outcome = await scene.begin(scene.open().read('nightly', call))
      await scene.status(status)
      await scene.clock.advance(timeoutMs)
      ok(rejected(outcome, 'TIMEOUT', words).retryable)
    }
  },

  async 'an error from the API server is reported unchanged, and a conflict is retried'(library) {
    const scene = new Scene(library)
    const refused = (status: number, message: string) =>
      Promise.reject(new ApiError('Cannot patch', { status, body: { kind: 'Status', message } }))
    scene.fault = { patchSpec: () => refused(403, 'user "u" cannot patch resource "multiclusterleases"') }
    const forbidden = await scene.begin(scene.open().read('nightly', call))
    rejected(forbidden, 'UNAUTHORIZED', /cannot patch resource/)
    let conflicts = 0
    scene.fault = {
      patchSpec: (...args) => (++conflicts === 1 ? refused(409, 'changed') : scene.resources.patchSpec(...args)),
    }
    equal(await scene.done(scene.open().read('nightly', call), { ok: true }), undefined)
  },

  async 'a call writes its request again when the late write of an abandoned call replaces it'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    await scene.done(store.acquire(claimOf(), call), grantOf())
    // The API server applies the renewal only after its caller has abandoned it and sent the next request.
    const late: (() => Promise<unknown>)[] = []
    scene.fault = {
      patchSpec(...args) {
        late.push(() => scene.resources.patchSpec(...args))
        return new Promise(() => {})
      },
    }
    const ending = new AbortController()
    const renewal = await scene.begin(store.renew(heldClaim, { ...call, signal: ending.signal }))
    ending.abort()
    await scene.settle()
    equal(renewal.state, 'rejected')
    scene.fault = {}
    const release = await scene.begin(store.release(heldClaim, call))
    const { key: slot, id } = await scene.request()
    for (const apply of late) await apply()
    await scene.settle()
    deepEqual(
      (await scene.requests()).map((request) => [request.key, request.id, request.verb]),
      [[slot, id, 'release']],
    )
    await scene.answer(slot, id, grantOf({ released: true }))
    equal(release.state, 'resolved')
  },

  async 'a call does not write its request again because of an earlier state'(library) {
    const scene = new Scene(library)
    const store = scene.open()
    await scene.done(store.acquire(claimOf(), call), grantOf())
    const before = await scene.resource()
    scene.fault = { get: async () => before }
    const patches = scene.asked.filter((what) => what === 'patch').length
    const renewal = await scene.begin(store.renew(heldClaim, call))
    await scene.clock.advance(timeoutMs - 1)
    equal(renewal.state, 'pending')
    ok(scene.asked.filter((what) => what === 'get').length > 0, 'the earlier state was never read')
    equal(scene.asked.filter((what) => what === 'patch').length, patches + 1)
  },

  async 'a call removes silent keys from a full resource, or reports that the resource is full'(library) {
    const scene = new Scene(library)
    const full = Object.fromEntries(
      Array.from({ length: 64 }, (_, index) => [`key-${index}`, requestOf(`id-${index}`)]),
    )
    await scene.resources.create(key, { requests: full }, undefined, call)
    scene.fault = {
      async patchSpec(at, patch, options) {
        const { spec } = await scene.resource()
        const left = Object.keys({ ...spec.requests, ...patch.requests }).filter(
          (name) => patch.requests[name] !== null,
        )
        if (left.length <= 64) return scene.resources.patchSpec(at, patch, options)
        throw new ApiError('Cannot patch', { status: 422, body: { kind: 'Status', message: 'Too many: 65' } })
      },
    }
    const store = scene.open()
    rejected(await scene.begin(store.read('nightly', call)), 'BACKEND_UNAVAILABLE', /64 candidates of this cluster/)
    await store.close?.()
    await scene.clock.advance(1_000)
    await scene.status({ silent: ['key-3', 'key-5'] })
    await scene.begin(store.read('nightly', call))
    equal((await scene.requests()).length, 63)
  },
}

function requestOf(id: string) {
  return { id, verb: 'read', renewTime: '', timeoutMs, claim: { holder: 'a' } } as const
}
