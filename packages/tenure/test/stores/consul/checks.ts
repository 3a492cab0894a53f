/** Checks of the Consul store that supplement the conformance suite, for the library and for its mutants. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { askConsul, keysAt, putKey, removeKeys, type ConsulAt } from '../../../../../test/servers/consul.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { LeaseStore } from '../../../src/engine/lease-store.ts'
import type { ConsulStoreOptions } from '../../../src/stores/consul/index.ts'
import { answered, claimOf, failsWith, follow, granted } from '../../clients/etcd/checks.ts'
import { startRecordingProxy } from '../../clients/etcd/recording-proxy.ts'

/** The library or a mutant of it, and a server. */
export interface Scene extends ConsulAt {
  open(options?: Partial<ConsulStoreOptions>): LeaseStore
}

export const call = { signal: new AbortController().signal, timeoutMs: 5_000 }

const keyOf = (election: string, what: 'record' | 'term') => `tenure/${encodeURIComponent(election)}/${what}`

async function valueAt(scene: ConsulAt, key: string): Promise<string> {
  const entry = (await keysAt(scene, key)).find(({ Key }) => Key === key)
  ok(entry, `there is no key ${key}`)
  return Buffer.from(entry.Value ?? '', 'base64').toString()
}

/** A store with two agents, the first of which can be muted. */
async function behindMute(scene: Scene) {
  const front = await startRecordingProxy(scene.url)
  return { front, store: scene.open({ endpoints: [front.url, scene.url] }) }
}

/** Checks by name. Each name states what the store does. */
export const checks: Record<string, (scene: Scene) => Promise<void>> = {
  async 'every read is linearizable, and a renewal and a release take one request each'(scene) {
    const front = await startRecordingProxy(scene.url)
    const store = scene.open({ endpoints: front.url })
    const record = granted(await store.acquire(claimOf(), call))
    await store.read(record.election, call)
    await store.list?.({}, call)
    const { next } = follow(store, record.election)
    equal((await next())?.version, record.version)
    const paths = front.asked.splice(0)
    ok(paths.length >= 5 && paths.every((path) => /[?&]consistent(&|$)/.test(path)), paths.join(', '))
    const renewed = granted(await store.renew(held(record), call))
    granted(await store.release(held(renewed), call))
    const writes = front.asked.filter((path) => path.startsWith('/v1/txn'))
    equal(writes.length, 2)
  },

  async 'acquire finds its own grant through the next agent when its answer is lost'(scene) {
    const { front, store } = await behindMute(scene)
    const claim = claimOf()
    await store.read(claim.election, call)
    front.isMute = true
    const record = granted(await answered(store.acquire(claim, { ...call, timeoutMs: 3_000 })))
    deepEqual({ term: record.term, attempt: record.attempt }, { term: 1, attempt: claim.attempt })
    equal((await scene.open().read(claim.election, call))?.version, record.version)
  },

  async 'a renewal whose answer is lost is refused through the next agent with the version that it wrote'(scene) {
    const { front, store } = await behindMute(scene)
    const record = granted(await store.acquire(claimOf(), call))
    front.isMute = true
    const outcome = await store.renew(held(record), { ...call, timeoutMs: 3_000 })
    equal(outcome.ok, false)
    const { attempt, term, released, version } = outcome.record ?? {}
    deepEqual({ attempt, term, released }, { attempt: record.attempt, term: 1, released: false })
    ok(version !== record.version && version === (await scene.open().read(record.election, call))?.version)
  },

  async 'a call whose only answer is lost rejects, because its outcome is unknown'(scene) {
    const front = await startRecordingProxy(scene.url)
    const store = scene.open({ endpoints: front.url })
    const record = granted(await store.acquire(claimOf(), call))
    front.isMute = true
    await failsWith(store.renew(held(record), { ...call, timeoutMs: 500 }), 'TIMEOUT', /did not answer/)
    const current = await scene.open().read(record.election, call)
    ok(current && current.version !== record.version, 'the renewal was not applied')
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

  async 'a claim that saw no record is refused after the record of another grant was deleted'(scene) {
    const claim = claimOf()
    const standby = scene.open()
    equal(await standby.read(claim.election, call), undefined)
    granted(await scene.open().acquire(claimOf({ election: claim.election }), call))
    await removeKeys(scene, keyOf(claim.election, 'record'))
    deepEqual(await standby.acquire(claim, call), { ok: false, highestTerm: 1, retryAfterMs: 15_000 })
  },

  async 'a candidate waits for the lease duration of a deleted record even if it never saw the record'(scene) {
    const record = granted(await scene.open().acquire(claimOf({ leaseDurationMs: 7_000 }), call))
    await removeKeys(scene, keyOf(record.election, 'record'))
    const outcome = await scene.open().acquire(claimOf({ election: record.election }), call)
    deepEqual(outcome, { ok: false, highestTerm: 1, retryAfterMs: 7_000 })
  },

  async 'a renewal restores a highest term and a history mark that were deleted by hand'(scene) {
    const store = scene.open()
    const first = granted(await store.acquire(claimOf(), call))
    const folder = `tenure/${first.election}/`
    for (const name of ['term', 'history-']) {
      const record = (await store.read(first.election, call)) ?? first
      const [found] = await keysAt(scene, `${folder}${name}`)
      ok(found, `there is no ${name}`)
      await removeKeys(scene, found.Key)
      granted(await store.renew(held(record), call))
      equal((await keysAt(scene, `${folder}${name}`)).length, 1)
    }
  },

  async 'a renewal never lowers the highest term'(scene) {
    const store = scene.open()
    const record = granted(await store.acquire(claimOf(), call))
    const { election, leaseDurationMs } = record
    await putKey(scene, keyOf(election, 'term'), JSON.stringify({ format: 1, election, term: 9, leaseDurationMs }))
    granted(await store.renew(held({ ...record, leaseDurationMs: 16_000 }), call))
    match(await valueAt(scene, keyOf(election, 'term')), /"term":9\b/)
  },

  async 'the store reports a value of another program and does not overwrite it'(scene) {
    for (const what of ['record', 'term'] as const) {
      const claim = claimOf()
      const key = keyOf(claim.election, what)
      for (const value of ['hello', '{"format":9}', '{}', '']) {
        await putKey(scene, key, value)
        const reading = scene.open().read(claim.election, call)
        await failsWith(reading, 'RECORD_INVALID', /cannot be used.* Location: the Consul key /s)
        await failsWith(scene.open().acquire(claim, call), 'RECORD_INVALID', /This election has no leader/)
        equal(await valueAt(scene, key), value)
      }
    }
  },

  async 'prefixes and elections with a common beginning share no keys'(scene) {
    const { election } = claimOf()
    const places: [prefix: string, election: string][] = [
      ['apps', `${election}/record`],
      [`apps/${election}`, 'record'],
      ['apps', election],
      [`apps/${election}/record`, 'record'],
      ['/apps/', `${election}%2Frecord`],
      [`dots ${election}`, '.'],
      [`dots ${election}`, '..'],
      [`dots ${election}`, '%2E'],
    ]
    for (const [prefix, name] of places) {
      const store = scene.open({ prefix })
      equal(granted(await store.acquire(claimOf({ election: name }), call)).term, 1)
      const { records = [] } = (await store.list?.({ limit: 1_000 }, call)) ?? {}
      ok(
        records.some((record) => record.election === name),
        `${name} is not listed`,
      )
    }
  },

  async 'list pages through all elections, skips foreign keys, and reports unreadable records'(scene) {
    const prefix = `list-${claimOf().election}`
    const store = scene.open({ prefix })
    const wanted = ['a', 'b/c', 'd', 'é', 'z z']
    for (const election of wanted) granted(await store.acquire(claimOf({ election }), call))
    for (const key of ['config', 'd/recordings', 'd/recorc', 'b c/record', 'empty/term']) {
      await putKey(scene, `${prefix}/${key}`, 'of another program')
    }
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

  async 'a watch waits for the next change and does not repeat its request in the meantime'(scene) {
    const front = await startRecordingProxy(scene.url)
    const store = scene.open({ endpoints: front.url })
    let record = granted(await store.acquire(claimOf(), call))
    const { next } = follow(store, record.election)
    equal((await next())?.version, record.version)
    for (let count = 0; count < 3; count++) {
      const seen = next()
      // Changes of other elections do not end the wait.
      for (let other = 0; other < 10; other++) granted(await scene.open().acquire(claimOf(), call))
      record = granted(await scene.open().renew(held(record), call))
      equal((await seen)?.version, record.version)
    }
    const reads = front.asked.filter((path) => path.includes('recurse'))
    ok(reads.length <= 5, `the watch sent ${reads.length} requests`)
  },
}

/** Writes keys until the newest one has this index, or a higher one. Returns that index. */
export async function fillUpTo(scene: ConsulAt, index: number): Promise<number> {
  for (let last = 0; ;) {
    const operations = JSON.stringify([
      { KV: { Verb: 'set', Key: 'fill', Value: btoa(`${index} ${last} ${Date.now()}`) } },
    ])
    const answer = await askConsul<{ Results: { KV: { ModifyIndex: number } }[] }>(scene, 'PUT', 'txn', operations)
    last = answer.Results[0]?.KV.ModifyIndex ?? 0
    if (last >= index) return last
  }
}
