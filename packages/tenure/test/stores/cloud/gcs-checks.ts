import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { GcsFetch, GcsStoreOptions } from '../../../src/stores/gcs/index.ts'
import { fakeClock } from '../../../../testing/src/index.ts'
import { call, claimOf, codeOf, granted, withFaultProxy, type Checks } from './cloud-checks.ts'
import { raceChecks } from './race-checks.ts'
import { termChecks } from './term-checks.ts'

/** Records the times, on this clock, at which lease records were sent. */
function noting(clock: { monotonicMs(): number }) {
  const sentMs: number[] = []
  const send: GcsFetch = (url, request) => {
    if (request.body?.includes('.record"')) sentMs.push(clock.monotonicMs())
    return fetch(url, request)
  }
  return { sentMs, send }
}

export const gcsChecks: Checks<GcsStoreOptions> = {
  ...termChecks(/^POST [^]*\.term"/),
  ...raceChecks(/^POST [^]*\.record"/),

  async 'writes of one object are more than a second apart'({ open }) {
    const clock = fakeClock()
    const { sentMs, send } = noting(clock)
    const store = open({ clock, fetch: send, writeIntervalMs: undefined })
    const record = granted(await store.acquire(claimOf(), call))
    const renewal = store.renew(held(record), call)
    await clock.advance(1_000)
    equal(sentMs.length, 1)
    await clock.advance(200)
    granted(await renewal)
    ok((sentMs[1] ?? 0) - (sentMs[0] ?? 0) > 1_000)
    // A write of another object is not delayed.
    granted(await store.acquire(claimOf(), call))
  },

  async 'a write does not wait for its turn beyond its deadline'({ open }) {
    const clock = fakeClock()
    const { sentMs, send } = noting(clock)
    const store = open({ clock, fetch: send, writeIntervalMs: undefined })
    const record = granted(await store.acquire(claimOf(), call))
    const renewal = codeOf(store.renew(held(record), { ...call, timeoutMs: 500 }))
    await clock.advance(400)
    equal(await renewal, 'RATE_LIMITED')
    await clock.advance(5_000)
    equal(sentMs.length, 1)
  },

  async 'a refused write does not delay the next one'({ open }) {
    const clock = fakeClock()
    const { send } = noting(clock)
    const store = open({ clock, fetch: send, writeIntervalMs: undefined })
    const other = open()
    const { election } = claimOf()
    const passOn = async (afterTerm: number) => {
      const record = granted(await other.acquire(claimOf({ election, afterTerm }), call))
      return granted(await other.release(held(record), call))
    }
    const { term } = await passOn(0)
    await store.read(election, call)
    // This acquire first writes with the outdated version that the store has seen, and then with the current one.
    const next = store.acquire(claimOf({ election, afterTerm: (await passOn(term)).term }), call)
    equal(await codeOf(next, 2_000), 'answered')
  },

  async 'acquire refuses a lease that is too short to be renewed at the write interval'({ open }) {
    const store = open({ writeIntervalMs: undefined })
    equal(await codeOf(store.acquire(claimOf({ leaseDurationMs: 3_000 }), call)), 'INVALID_TTL')
    equal(await codeOf(store.acquire(claimOf({ leaseDurationMs: 5_000 }), call)), 'answered')
  },

  async 'a failed condition is a refusal, not an error'({ open }) {
    const store = open()
    const record = granted(await store.acquire(claimOf(), call))
    granted(await open().renew(held(record), call))
    equal(await codeOf(store.renew(held(record), call)), 'answered')
  },

  async 'acquire finds its own grant after its answer was lost'(library) {
    await withFaultProxy(library, async (front) => {
      const store = library.open({ url: front.url })
      const claim = claimOf()
      front.lose = { method: 'POST', count: 1 }
      equal(await codeOf(store.acquire(claim, call)), 'BACKEND_UNAVAILABLE')
      const record = granted(await store.acquire(claim, call))
      deepEqual(await library.open().read(claim.election, call), record)
      equal(record.term, 1)
    })
  },

  async 'rate limiting, server errors and denied access are reported with their codes'(library) {
    await withFaultProxy(library, async (front) => {
      const store = library.open({ url: front.url })
      for (const [status, code] of [
        [429, 'RATE_LIMITED'],
        [503, 'BACKEND_UNAVAILABLE'],
        [403, 'UNAUTHORIZED'],
      ] as const) {
        front.refuse = status
        equal(await codeOf(store.read('payments', call)), code)
      }
    })
  },

  async 'a missing bucket is reported'({ open }) {
    const error = await open({ bucket: 'no-such-bucket' })
      .acquire(claimOf(), call)
      .catch((thrown: unknown) => thrown)
    match(String(error), /The bucket does not exist/)
  },
}
