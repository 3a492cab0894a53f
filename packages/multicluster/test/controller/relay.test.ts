import { expect, test } from 'vitest'
import { memoryResources } from '../../../tenure/src/multicluster/memory-resources.ts'
import type { MultiClusterRequest } from '../../../tenure/src/multicluster/protocol/resource-types.ts'
import { relayedStore } from '../../../tenure/src/multicluster/relayed-store.ts'
import { simulatedSwap } from '../../../testing/src/simulation/simulated-swap.ts'
import { swapStore } from '../../../tenure/src/store-kit/compare-and-swap-store.ts'
import { fakeClock } from '../../../testing/src/fakes/fake-clock.ts'
import { Relay, type RelayOptions } from '../../src/relay/relay.ts'
import { call, key, twoClusters } from '../two-clusters.ts'

const ask = (id: string, claim: object = {}, verb = 'acquire'): MultiClusterRequest =>
  ({
    id,
    verb,
    renewTime: '2030-01-01T00:00:00.000000Z',
    timeoutMs: 5_000,
    claim: { holder: 'a', attempt: id, leaseDurationMs: 15_000, afterTerm: 0, metadata: '{}', ...claim },
  }) as MultiClusterRequest

/** A claim of a candidate in another cluster. */
const claim = {
  holder: 'west/b',
  attempt: 'b.1',
  leaseDurationMs: 15_000,
  afterTerm: 0,
  metadata: {},
  writeId: 'b.1',
}

/** One cluster whose relays the test starts, and a global store that can be made to fail. */
function oneCluster() {
  const clock = fakeClock()
  const server = simulatedSwap()
  const state = { isDown: false, calls: 0, statusWrites: 0 }
  const memory = memoryResources(() => clock.randomId())
  const resources = {
    ...memory,
    patchStatus: (...args: Parameters<typeof memory.patchStatus>) => {
      state.statusWrites += 1
      return memory.patchStatus(...args)
    },
  }
  const global = swapStore(server, clock)
  const failing = async <T>(work: () => Promise<T>): Promise<T> => {
    state.calls += 1
    if (state.isDown)
      throw Object.assign(new Error('The global store is down.'), { code: 'BACKEND_UNAVAILABLE', retryable: true })
    return work()
  }
  const store: typeof global = {
    ...global,
    read: (election, options) => failing(() => global.read(election, options)),
    acquire: (claim, options) => failing(() => global.acquire(claim, options)),
    renew: (claim, options) => failing(() => global.renew(claim, options)),
    release: (claim, options) => failing(() => global.release(claim, options)),
  }
  const start = (options: Partial<RelayOptions> = {}) => {
    const relay = new Relay({ resources, store, cluster: 'east', clock, isFirst: () => true, ...options })
    relay.start()
    return relay
  }
  const shown = async () => (await memory.get(key, call))?.status
  const condition = async (type: string) => (await shown())?.conditions?.find((one) => one.type === type)
  return { clock, memory, state, store, start, shown, condition, read: () => global.read('jobs/nightly', call) }
}

test('a relay keeps answering when its observer throws or rejects', async () => {
  const rejected: unknown[] = []
  const onUnhandled = (reason: unknown) => void rejected.push(reason)
  process.on('unhandledRejection', onUnhandled)
  try {
    const failing: (() => undefined)[] = [
      () => Promise.reject(new Error('rejected')) as never,
      () => expect.fail('thrown'),
    ]
    for (const onCall of failing) {
      const { clock, memory, start, shown } = oneCluster()
      const relay = start({ observer: { onCall } })
      await memory.create(key, { requests: { a: ask('1') } }, undefined, call)
      await clock.advance(100)
      expect((await shown())?.answers?.['a']?.id).toBe('1')
      await relay.stop()
    }
    await new Promise(setImmediate)
    expect(rejected).toEqual([])
  } finally {
    process.off('unhandledRejection', onUnhandled)
  }
})

test('a grant takes one status write even if the watch shows it before the acquire is answered', async () => {
  const { clock, memory, state, start, shown, store } = oneCluster()
  const late = { ...store, acquire: (...args: Parameters<typeof store.acquire>) => store.acquire(...args).then(later) }
  const later = <T>(answer: T) => new Promise<T>((resolve) => void clock.setTimer(50, () => resolve(answer)))
  const relay = start({ store: late })
  await memory.create(key, { requests: { a: ask('1', {}, 'read') } }, undefined, call)
  await clock.advance(100)
  const { statusWrites } = state
  await memory.patchSpec(key, { requests: { a: ask('2') } }, call)
  await clock.advance(100)
  expect((await shown())?.answers?.['a']).toMatchObject({ id: '2', ok: true })
  expect(state.statusWrites - statusWrites).toBe(1)
  await relay.stop()
})

test('a new leader is shown although the answer to a call is late', async () => {
  const { clock, memory, start, shown, store } = oneCluster()
  const relay = start({ store: { ...store, read: () => new Promise(() => {}) } })
  await memory.create(key, { requests: { a: ask('1', {}, 'read') } }, undefined, call)
  await clock.advance(100)
  await store.acquire({ ...claim, election: 'jobs/nightly' }, call)
  await clock.advance(2_000)
  expect((await shown())?.term).toBe(1)
  await relay.stop()
})

test('a candidate in another cluster takes over within one lease when the leader dies', async () => {
  const { clock, east, west, leaseDurationMs } = twoClusters()
  const { elector, die } = east.candidate('a')
  await clock.advance(100)
  const other = west.candidate('b').elector
  await clock.advance(2 * leaseDurationMs)
  expect([elector.isLeader(), other.isLeader()]).toEqual([true, false])
  die()
  await clock.advance(leaseDurationMs + 500)
  expect(other.isLeader()).toBe(true)
})

test('a candidate takes over within one lease no matter when it last observed the lease, even after it has led before', async () => {
  for (let livesMs = 1_000; livesMs <= 31_000; livesMs += 3_000) {
    const { clock, east, west, leaseDurationMs } = twoClusters()
    const { elector: other } = west.candidate('b')
    await clock.advance(100)
    const { elector, die } = east.candidate('a')
    await clock.advance(livesMs)
    void other.stepDown({ cooldownMs: 200 })
    await clock.advance(livesMs)
    expect([elector.isLeader(), other.isLeader()]).toEqual([true, false])
    die()
    await clock.advance(leaseDurationMs + 500)
    expect(other.isLeader(), `${livesMs} ms`).toBe(true)
  }
})

test('a candidate takes over within one lease even when a read makes the relay write the newest renewal to the status', async () => {
  const { clock, east, west, leaseDurationMs } = twoClusters()
  const { die } = east.candidate('a')
  await clock.advance(100)
  const other = west.candidate('b').elector
  await clock.advance(2.5 * leaseDurationMs)
  const before = (await west.shown()).status.record?.version
  die()
  await clock.advance(leaseDurationMs / 3)
  await relayedStore(west.resources, key.namespace, clock).read(key.name, call)
  expect((await west.shown()).status.record?.version).not.toBe(before)
  await clock.advance((leaseDurationMs * 2) / 3 + 500)
  expect(other.isLeader()).toBe(true)
})

test('the removal of an abandoned request slot writes no renewal of another cluster into the status', async () => {
  const { clock, east, west } = twoClusters()
  east.candidate('a')
  await clock.advance(100)
  const { patchSpec, create } = west.resources
  const spec = { requests: { gone: ask('1', {}, 'read') } }
  if (!(await patchSpec(key, spec, call))) await create(key, spec, undefined, call)
  await clock.advance(55_000)
  const before = (await west.shown()).status
  expect(Object.keys(before.answers)).toEqual(['gone'])
  await clock.advance(10_000)
  const after = (await west.shown()).status
  expect(Object.keys(after.answers)).toEqual([])
  expect((await east.shown()).status.record?.version).not.toBe(before.record?.version)
  expect(after.record?.version).toBe(before.record?.version)
})

test('a relay answers a malformed request with an error and a condition and still serves the others', async () => {
  const { clock, memory, start, shown, condition, read } = oneCluster()
  start()
  const requests = { bad: ask('1', { holder: 'west/a' }), worse: ask('2', { metadata: '[]' }), good: ask('3') }
  await memory.create(key, { requests }, undefined, call)
  await clock.advance(100)
  const { answers = {} } = (await shown()) ?? {}
  expect(answers['bad']).toMatchObject({ id: '1', ok: false, error: { code: 'INVALID_REQUEST' } })
  expect(answers['worse']).toMatchObject({ id: '2', ok: false, error: { code: 'INVALID_REQUEST' } })
  expect(answers['good']).toMatchObject({ id: '3', ok: true, record: { holder: 'a', cluster: 'east' } })
  expect(await condition('Ready')).toMatchObject({ status: 'False', reason: 'MalformedRequest' })
  expect(await read()).toMatchObject({ holder: 'east/a' })
  // Not every request of the resource reached the global store.
  expect((await shown())?.observedGeneration).toBeUndefined()
})

test('requests that have not timed out are answered after a temporary failure of the global store', async () => {
  const { clock, memory, state, start, shown, condition } = oneCluster()
  start()
  state.isDown = true
  await memory.create(key, { requests: { a: ask('1') } }, undefined, call)
  await clock.advance(2_000)
  expect(await condition('BackendHealthy')).toMatchObject({ status: 'False', reason: 'BackendUnavailable' })
  const tried = state.calls
  expect(tried).toBeLessThan(10)
  const since = (await condition('BackendHealthy'))?.lastTransitionTime
  await clock.advance(1_000)
  expect((await condition('BackendHealthy'))?.lastTransitionTime).toBe(since)
  state.isDown = false
  await clock.advance(1_500)
  expect((await shown())?.answers['a']).toMatchObject({ id: '1', ok: true })
  expect(await condition('BackendHealthy')).toMatchObject({ status: 'True' })
  expect((await condition('BackendHealthy'))?.lastTransitionTime).not.toBe(since)
})

test('a relay does not carry out a request that has timed out', async () => {
  const { clock, memory, state, start, shown, read } = oneCluster()
  start()
  state.isDown = true
  await memory.create(key, { requests: { a: ask('1') } }, undefined, call)
  await clock.advance(6_000)
  state.isDown = false
  await clock.advance(10_000)
  expect((await shown())?.answers['a']).toBeUndefined()
  expect(await read()).toBeUndefined()
})

test('a restarted relay does not repeat a call that was answered', async () => {
  const { clock, memory, state, start } = oneCluster()
  const first = start()
  await memory.create(key, { requests: { a: ask('1') } }, undefined, call)
  await clock.advance(100)
  await first.stop()
  const { calls } = state
  start()
  await clock.advance(1_000)
  expect(state.calls).toBe(calls)
})

test('another relay answers a request that the primary relay leaves unanswered, and only then', async () => {
  const { clock, memory, state, start, shown } = oneCluster()
  const first = start()
  start({ isFirst: () => false })
  await memory.create(key, { requests: { a: ask('1') } }, undefined, call)
  await clock.advance(2_000)
  expect(state.calls).toBe(1)
  await first.stop()
  await memory.patchSpec(key, { requests: { a: ask('2') } }, call)
  await clock.advance(900)
  expect((await shown())?.answers['a']).toMatchObject({ id: '1' })
  await clock.advance(200)
  expect((await shown())?.answers['a']).toMatchObject({ id: '2' })
})

test('another relay answers the next request at once when the primary relay left one unanswered', async () => {
  const { clock, memory, start, shown } = oneCluster()
  start({ isFirst: () => false })
  await memory.create(key, { requests: { a: ask('1') } }, undefined, call)
  await clock.advance(500)
  expect((await shown())?.answers['a']).toBeUndefined()
  await memory.patchSpec(key, { requests: { a: ask('2') } }, call)
  await clock.advance(10)
  expect((await shown())?.answers['a']).toMatchObject({ id: '2' })
})

test('a relay that answered for the primary answers at once for the length of its Lease, or until another relay answers', async () => {
  const { clock, memory, state, start, shown } = oneCluster()
  start({ isFirst: () => false })
  const answerAfter = async (id: string, ms: number) => {
    await memory.patchSpec(key, { requests: { a: ask(id) } }, call)
    await clock.advance(ms)
    return (await shown())?.answers['a']?.id
  }
  await memory.create(key, { requests: { a: ask('1') } }, undefined, call)
  await clock.advance(1_100)
  expect((await shown())?.answers['a']).toMatchObject({ id: '1' })
  expect(await answerAfter('2', 10)).toBe('2')
  expect(await answerAfter('3', 10)).toBe('3')
  await clock.advance(15_000)
  expect(await answerAfter('4', 900)).toBe('3')
  await clock.advance(200)
  expect(await answerAfter('5', 10)).toBe('5')
  state.isDown = true
  expect(await answerAfter('6', 10)).toBe('5')
  const { uid = '' } = (await memory.get(key, call)) ?? {}
  const byAnother = { id: '6', outcome: { ok: true as const } }
  await memory.patchStatus({ ...key, uid }, { answers: { a: byAnother } }, undefined, call)
  await clock.advance(10)
  state.isDown = false
  expect(await answerAfter('7', 900)).toBe('6')
})

test('a relay removes the answer to a candidate that is silent for a minute and lists its key as silent', async () => {
  const { clock, memory, start, shown } = oneCluster()
  start()
  await memory.create(key, { requests: { a: ask('1'), b: ask('2', {}, 'read') } }, undefined, call)
  await clock.advance(59_000)
  expect(Object.keys((await shown())?.answers ?? {})).toEqual(['a', 'b'])
  await memory.patchSpec(key, { requests: { b: ask('3', {}, 'read') } }, call)
  await clock.advance(2_000)
  expect(await shown()).toMatchObject({ silent: ['a'], answers: { b: { id: '3' } } })
  expect((await shown())?.answers['a']).toBeUndefined()
  // The candidate returns.
  await memory.patchSpec(key, { requests: { a: ask('4') } }, call)
  await clock.advance(100)
  expect(await shown()).toMatchObject({ silent: [], answers: { a: { id: '4' } } })
  await memory.patchSpec(key, { requests: { a: null } }, call)
  await clock.advance(100)
  expect(Object.keys((await shown())?.answers ?? {})).toEqual(['b'])
})

test('the status of a cluster without the leader is written when the leader changes, but not when it renews', async () => {
  const { clock, east, west, leaseDurationMs } = twoClusters()
  const { elector } = east.candidate('a')
  await clock.advance(100)
  west.candidate('b')
  await clock.advance(1_000)
  const before = (await west.shown()).status.record?.version
  expect((await west.shown()).status.leader).toBe('east/a')
  await clock.advance(leaseDurationMs / 2)
  expect((await east.shown()).status.record?.version).not.toBe(before)
  expect((await west.shown()).status.record?.version).toBe(before)
  void elector.stop()
  await clock.advance(1_000)
  expect((await west.shown()).status).toMatchObject({ leader: 'b', cluster: 'west', term: 2 })
  expect((await east.shown()).status).toMatchObject({ leader: 'west/b', cluster: 'west', term: 2 })
})

test('one renewal costs one global call and one status write, and a relay drops a deleted resource', async () => {
  const { clock, memory, state, start } = oneCluster()
  const relay = start()
  const lock = relayedStore(memory, key.namespace, clock)
  const settled = async <T>(work: Promise<T>): Promise<T> => {
    await clock.advance(100)
    return work
  }
  const claim = { election: key.name, holder: 'a', attempt: '1', leaseDurationMs: 15_000, afterTerm: 0, metadata: {} }
  let outcome = await settled(lock.acquire(claim, call))
  const before = { ...state }
  for (let round = 0; round < 10; round += 1) {
    await clock.advance(5_000)
    const { term, version } = outcome.record ?? { term: 0, version: '' }
    outcome = await settled(lock.renew({ ...claim, term, version }, call))
    expect(outcome.ok).toBe(true)
  }
  expect(state.calls - before.calls).toBe(10)
  expect(state.statusWrites - before.statusWrites).toBe(10)
  expect(relay.load()).toEqual({ resources: 1, calls: { running: 0, waiting: 0 }, writes: { running: 0, waiting: 0 } })
  memory.delete(key)
  await clock.advance(100)
  expect(relay.load().resources).toBe(0)
  await lock.close?.()
})
