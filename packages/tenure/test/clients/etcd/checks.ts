/** Checks of the etcd store that supplement the conformance suite, for the library and for its mutants. */
import { deepEqual, equal, fail, match, ok, rejects } from 'node:assert/strict'
import { onTestFinished } from 'vitest'
import { askEtcd, base64, putKey, removeKeys } from '../../../../../test/servers/etcd.ts'
import { systemClock, type Clock } from '../../../src/common/clock.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import { isTenureError } from '../../../src/common/errors.ts'
import type { AcquireClaim, CallOptions, LeaseRecord, LeaseStore, Outcome } from '../../../src/engine/lease-store.ts'
import type { EtcdStoreOptions } from '../../../src/stores/etcd/index.ts'
import { fakeClock } from '../../../../testing/src/index.ts'
import { startRecordingProxy, type RecordingProxy } from './recording-proxy.ts'

/** The library or a mutant of it, and a server. */
export interface Scene {
  /** URL of one member. */
  readonly url: string
  open(options?: Partial<EtcdStoreOptions>): LeaseStore
}

const call: CallOptions = { signal: new AbortController().signal, timeoutMs: 5_000 }
let claims = 0

export function claimOf(change: Partial<AcquireClaim> = {}): AcquireClaim {
  const attempt = `attempt-${process.pid}-${++claims}`
  return {
    election: attempt,
    holder: 'node-1',
    attempt,
    leaseDurationMs: 15_000,
    afterTerm: 0,
    metadata: {},
    ...change,
  }
}

export function granted(outcome: Outcome): LeaseRecord {
  ok(outcome.ok, 'the claim was refused')
  return outcome.record
}

const keyOf = (election: string, what: 'record' | 'term') => `tenure/${encodeURIComponent(election)}/${what}`

interface Kept {
  readonly value: string
  readonly mod_revision: string
}

async function valueAt({ url }: Scene, key: string): Promise<string | undefined> {
  const { kvs } = await askEtcd<{ kvs?: readonly Kept[] }>({ url }, 'kv/range', { key: base64(key) })
  const value = kvs?.[0]?.value
  return value && Buffer.from(value, 'base64').toString()
}

/** Fails the check if there is no answer. */
export const answered = <T>(promise: Promise<T>): Promise<T> =>
  promise.catch((error: unknown) => fail(`there was no answer: ${String(error)}`))

/** Expects a rejection with this code and a message that matches. */
export async function failsWith(promise: Promise<unknown>, code: string, words: RegExp): Promise<void> {
  await rejects(promise, (error: unknown) => {
    ok(isTenureError(error), String(error))
    equal(error.code, code)
    match(error.message, words)
    return true
  })
}

/** A store with two members, the first of which can be muted. */
async function behindMute(scene: Scene) {
  const front = await startRecordingProxy(scene.url)
  const store = scene.open({ endpoints: [front.url, scene.url] })
  return { front, store }
}

/** A clock that can be moved ahead. */
export function skippingClock(): Clock & { skip(ms: number): void } {
  let skippedMs = 0
  return {
    ...systemClock,
    monotonicMs: () => systemClock.monotonicMs() + skippedMs,
    skip: (ms) => void (skippedMs += ms),
  }
}

/** Reads a watch step by step. */
export function follow(store: LeaseStore, election: string) {
  const leaving = new AbortController()
  onTestFinished(() => leaving.abort())
  const states = store.watch?.(election, { signal: leaving.signal })[Symbol.asyncIterator]()
  ok(states)
  const next = async () => {
    const { done, value } = await answered(states.next())
    ok(!done, 'the watch ended')
    return value
  }
  const until = async (wanted: (record: LeaseRecord | undefined) => boolean) => {
    for (;;) {
      const record = await next()
      if (wanted(record)) return record
    }
  }
  return { next, until }
}

const readPath = '/v3/kv/txn'
const watchPath = '/v3/watch'

/** Runs `act` while no answer from the member arrives. The watch has lasted long enough to be resumed immediately. */
async function duringOutage(
  front: RecordingProxy,
  clock: { skip(ms: number): void },
  act: () => Promise<unknown>,
): Promise<void> {
  clock.skip(10_000)
  front.isMute = true
  const resumed = front.answered(watchPath)
  front.cut()
  await resumed
  await act()
  clock.skip(10_000)
  front.isMute = false
  front.cut()
}

/** Checks by name. Each name states what the store does. */
export const checks: Record<string, (scene: Scene) => Promise<void>> = {
  async 'a grant, a renewal, a release and a refusal take one request each'(scene) {
    const front = await startRecordingProxy(scene.url)
    const store = scene.open({ endpoints: front.url })
    const claim = claimOf()
    const first = granted(await store.acquire(claim, call))
    deepEqual(front.asked.splice(0), ['/v3/kv/txn'])
    const renewed = granted(await store.renew(held(first), call))
    deepEqual(front.asked.splice(0), ['/v3/kv/txn'])
    const stranger = scene.open({ endpoints: front.url })
    const refusal = await stranger.acquire(claimOf({ election: claim.election }), call)
    deepEqual({ ...refusal, record: refusal.record?.version }, { ok: false, record: renewed.version, highestTerm: 1 })
    deepEqual(front.asked.splice(0), ['/v3/kv/txn'])
    granted(await store.release(held(renewed), call))
    deepEqual(front.asked, ['/v3/kv/txn'])
  },

  async 'acquire finds its own grant on the next member when its answer is lost'(scene) {
    const { front, store } = await behindMute(scene)
    const claim = claimOf()
    front.isMute = true
    const record = granted(await answered(store.acquire(claim, { ...call, timeoutMs: 1_500 })))
    deepEqual({ term: record.term, attempt: record.attempt }, { term: 1, attempt: claim.attempt })
    equal((await scene.open().read(claim.election, call))?.version, record.version)
  },

  async 'a renewal whose answer is lost is repeated on the next member and refused with the version that it wrote'(
    scene,
  ) {
    const { front, store } = await behindMute(scene)
    const record = granted(await store.acquire(claimOf(), call))
    front.isMute = true
    const outcome = await store.renew(held(record), { ...call, timeoutMs: 1_500 })
    equal(outcome.ok, false)
    const { attempt, term, released, version } = outcome.record ?? {}
    deepEqual({ attempt, term, released }, { attempt: record.attempt, term: 1, released: false })
    ok(version !== record.version && version === (await scene.open().read(record.election, call))?.version)
  },

  async 'a release whose answer is lost is repeated on the next member and finds the lease released'(scene) {
    const { front, store } = await behindMute(scene)
    const record = granted(await store.acquire(claimOf(), call))
    front.isMute = true
    const outcome = await store.release(held(record), { ...call, timeoutMs: 1_500 })
    deepEqual({ ok: outcome.ok, released: outcome.record?.released }, { ok: false, released: true })
  },

  async 'a takeover is refused when the record was renewed after it was read'(scene) {
    const claim = claimOf()
    const standby = scene.open()
    const record = granted(await scene.open().acquire(claim, call))
    await standby.read(claim.election, call)
    const renewed = granted(await scene.open().renew(held(record), call))
    const late = claimOf({ election: claim.election, afterTerm: 1, expiredVersion: record.version })
    equal((await standby.acquire(late, call)).ok, false)
    equal((await scene.open().read(claim.election, call))?.version, renewed.version)
  },

  async 'a candidate waits for the lease duration of a deleted record even if it never saw the record'(scene) {
    const record = granted(await scene.open().acquire(claimOf({ leaseDurationMs: 7_000 }), call))
    await removeKeys(scene, keyOf(record.election, 'record'))
    const outcome = await scene.open().acquire(claimOf({ election: record.election }), call)
    deepEqual(outcome, { ok: false, highestTerm: 1, retryAfterMs: 7_000 })
  },

  async 'a renewal restores a highest term that was deleted by hand'(scene) {
    const store = scene.open()
    const record = granted(await store.acquire(claimOf(), call))
    await removeKeys(scene, keyOf(record.election, 'term'))
    granted(await store.renew(held(record), call))
    match((await valueAt(scene, keyOf(record.election, 'term'))) ?? '', /"term":1\b/)
  },

  async 'a renewal never lowers the highest term'(scene) {
    const store = scene.open()
    const record = granted(await store.acquire(claimOf(), call))
    const { election, leaseDurationMs } = record
    await putKey(scene, keyOf(election, 'term'), JSON.stringify({ format: 1, election, term: 9, leaseDurationMs }))
    granted(await store.renew(held({ ...record, leaseDurationMs: 16_000 }), call))
    match((await valueAt(scene, keyOf(election, 'term'))) ?? '', /"term":9\b/)
  },

  async 'the store reports a value of another program and does not overwrite it'(scene) {
    for (const what of ['record', 'term'] as const) {
      const claim = claimOf()
      const key = keyOf(claim.election, what)
      for (const value of ['hello', '{"format":9}', '{}', '']) {
        await putKey(scene, key, value)
        await failsWith(
          scene.open().read(claim.election, call),
          'RECORD_INVALID',
          /cannot be used.* Location: the etcd key /s,
        )
        await failsWith(scene.open().acquire(claim, call), 'RECORD_INVALID', /This election has no leader/)
        equal((await valueAt(scene, key)) ?? '', value)
      }
    }
  },

  async 'read refuses a record that another election wrote'(scene) {
    const record = granted(await scene.open().acquire(claimOf(), call))
    const { election } = claimOf()
    await putKey(scene, keyOf(election, 'record'), (await valueAt(scene, keyOf(record.election, 'record'))) ?? '')
    await failsWith(scene.open().read(election, call), 'RECORD_INVALID', /belongs to/)
  },

  async 'slashes around a prefix are ignored'(scene) {
    const prefix = `slashes-${claimOf().election}`
    const record = granted(await scene.open({ prefix }).acquire(claimOf(), call))
    for (const same of [`/${prefix}`, `${prefix}/`, `//${prefix}//`]) {
      equal((await scene.open({ prefix: same }).read(record.election, call))?.version, record.version, same)
    }
  },

  async 'prefixes and elections with a common beginning share no keys'(scene) {
    const { election } = claimOf()
    const places: [prefix: string, election: string][] = [
      ['apps', `${election}/record`],
      [`apps/${election}`, 'record'],
      ['apps', election],
      [`apps/${election}/record`, 'record'],
      ['apps/', `${election}%2Frecord`],
    ]
    for (const [prefix, name] of places) {
      const store = scene.open({ prefix })
      equal(granted(await store.acquire(claimOf({ election: name }), call)).term, 1)
      const found = await store.list?.({}, call)
      ok(found?.records.some((record) => record.election === name))
    }
  },

  async 'list pages through all elections, skips foreign keys, and reports unreadable records'(scene) {
    const prefix = `list-${claimOf().election}`
    const store = scene.open({ prefix })
    const wanted = ['a', 'b/c', 'd', 'é', 'z z']
    for (const election of wanted) granted(await store.acquire(claimOf({ election }), call))
    await putKey(scene, `${prefix}/config`, 'of somebody else')
    for (const first of ['', 'a', 'c', 'd/recorc', 'd/record', 'e', 'z\x7f']) {
      for (const last of ['A', 'B', 'C', 'D', 'E', 'F']) {
        const parts = [Buffer.from(`${prefix}/${first}`), Buffer.from([0xff]), Buffer.from(last)]
        await askEtcd(scene, 'kv/put', { key: Buffer.concat(parts).toString('base64'), value: base64('no text') })
      }
    }
    for (const last of ['a', 'b', 'c', 'd', 'e']) await putKey(scene, `${prefix}/d/${last}`, 'x'.repeat(2 ** 20))
    await putKey(scene, `${prefix}/broken/record`, 'not ours')
    const found: string[] = []
    const problems: string[] = []
    let pages = 0
    for (let after: string | undefined, isFirst = true; isFirst || after; isFirst = false) {
      const page = await store.list?.({ after, limit: 2 }, call)
      ok(page && page.records.length <= 2)
      found.push(...page.records.map(({ election }) => election))
      problems.push(...(page.problems ?? []))
      after = page.next
      ok(++pages < 40, 'the listing does not end')
    }
    deepEqual(found.toSorted(), wanted.toSorted())
    equal(problems.length, 1)
    match(problems[0] ?? '', /broken/)
    ok(pages >= 3)
  },

  async 'a watch ignores keys of another program'(scene) {
    const { election } = claimOf()
    const store = scene.open({ prefix: 'apps' })
    const record = granted(await store.acquire(claimOf({ election }), call))
    const { next } = follow(store, election)
    equal((await next())?.version, record.version)
    const seen = next()
    // This key sorts between the election's two keys.
    granted(await scene.open({ prefix: `apps/${election}` }).acquire(claimOf({ election: 's' }), call))
    const renewed = granted(await store.renew(held(record), call))
    equal((await seen)?.version, renewed.version)
  },

  async 'a watch of a long lease stays open between renewals, but not beyond the watch timeout'(scene) {
    const leaseDurationMs = 900_000
    const clock = fakeClock()
    const front = await startRecordingProxy(scene.url)
    const store = scene.open()
    let record = granted(await store.acquire(claimOf({ leaseDurationMs }), call))
    const { next } = follow(scene.open({ endpoints: front.url, clock }), record.election)
    equal((await next())?.version, record.version)
    // The first renewal is immediate: after it, the watch is known to be open.
    for (const passedMs of [0, 1, 1, 1].map((thirds) => (thirds * leaseDurationMs) / 3)) {
      const renew = async () => {
        await clock.advance(passedMs)
        return (record = granted(await store.renew(held(record), call)))
      }
      const [seen, renewed] = await Promise.all([next(), renew()])
      equal(seen?.version, renewed.version)
    }
    deepEqual(front.asked.splice(0), [readPath, watchPath])
    const [again] = await Promise.all([next(), clock.advance(1.5 * leaseDurationMs)])
    equal(again?.version, record.version)
    deepEqual(front.asked, [readPath])
  },

  async 'a watch that was interrupted shows the changes made in the meantime'(scene) {
    const clock = skippingClock()
    const front = await startRecordingProxy(scene.url)
    const { next, until } = follow(scene.open({ endpoints: front.url, clock }), claimOf().election)
    equal(await next(), undefined)
    const claim = claimOf({ election: `attempt-${process.pid}-${claims}`, leaseDurationMs: 2_000 })
    const opened = front.answered(watchPath)
    const waiting = until((record) => record !== undefined)
    await opened
    const record = granted(await scene.open().acquire(claim, call))
    equal((await waiting)?.version, record.version)
    const seen = until((state) => state?.released === true)
    await duringOutage(front, clock, async () => granted(await scene.open().release(held(record), call)))
    equal((await seen)?.term, 1)
    equal(front.asked.filter((path) => path === '/v3/kv/txn').length, 1, 'the state was read again')
  },

  async 'a watch whose history was compacted starts again with the current state'(scene) {
    const clock = skippingClock()
    const front = await startRecordingProxy(scene.url)
    const { election } = claimOf()
    const first = granted(await scene.open().acquire(claimOf({ election }), call))
    const { next, until } = follow(scene.open({ endpoints: front.url, clock }), election)
    equal((await next())?.version, first.version)
    const store = scene.open()
    let record = granted(await store.renew(held(first), call))
    await until((state) => state?.version === record.version)
    const seen = until((state) => state?.released === true)
    await duringOutage(front, clock, async () => {
      for (let count = 0; count < 3; count++) record = granted(await store.renew(held(record), call))
      granted(await store.release(held(record), call))
      const { header } = await askEtcd<{ header: { revision: string } }>(scene, 'kv/range', { key: base64('none') })
      await askEtcd(scene, 'kv/compaction', { revision: header.revision, physical: true })
    })
    equal((await seen)?.term, 1)
  },
}
