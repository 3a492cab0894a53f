/** Tests a process that is killed at each moment of an acquire and a renewal, and guards that cannot do their work. */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { redis } from '../../../../../test/servers/redis.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import type { Explanation } from '../../../src/index.ts'
import {
  endProcess,
  expectReleased,
  newElection,
  openedStore,
  readRecord,
  startLeader,
  startStandby,
} from './guarded-process.ts'

describeWith(redis, 'a guard, at each moment of its process', (server) => {
  /** A process behind a proxy. Its guard reaches the server directly. */
  const scene = async (waits: boolean) => {
    const proxy = await startProxy(server().port)
    onTestFinished(() => proxy.stop())
    const election = newElection()
    const options = { elections: [election], storeUrl: server().url, leaseDurationMs: 6_000, waits }
    const leader = await startLeader(`redis://127.0.0.1:${proxy.port}`, options)
    return { proxy, election, leader, store: await openedStore(server().url) }
  }

  test('an acquire that arrives after its process was killed is released', async () => {
    const { proxy, election, leader, store } = await scene(true)
    proxy.set('hold', 'to-server')
    leader.child.send('start')
    await vi.waitFor(() => expect(proxy.queuedBytes).toBeGreaterThan(0))
    await endProcess(leader.child)
    // The guard starts, and finds nothing at first.
    await delay(500)
    expect(await readRecord(store, election)).toBeUndefined()
    proxy.set('pass', 'to-server')
    expect(await expectReleased(store, election)).toMatchObject({ term: 1 })
  })

  test('an acquire whose answer was in flight when its process was killed is released', async () => {
    const { proxy, election, leader, store } = await scene(true)
    proxy.set('hold', 'to-client')
    leader.child.send('start')
    await vi.waitFor(async () => expect(await readRecord(store, election)).toMatchObject({ released: false }))
    await endProcess(leader.child)
    expect(await expectReleased(store, election)).toMatchObject({ term: 1 })
  })

  test('a lease is released when its process was killed while a renewal was in flight to the store', async () => {
    const { proxy, election, leader, store } = await scene(false)
    proxy.set('hold', 'to-server')
    await vi.waitFor(() => expect(proxy.queuedBytes).toBeGreaterThan(0), { timeout: 10_000 })
    await endProcess(leader.child)
    proxy.set('pass', 'to-server')
    expect(await expectReleased(store, election)).toMatchObject({ term: 1 })
  })

  test('a lease is released when its process was killed while the answer to a renewal was in flight', async () => {
    const { proxy, election, leader, store } = await scene(false)
    const before = await readRecord(store, election)
    proxy.set('hold', 'to-client')
    const renewed = async () => expect((await readRecord(store, election))?.version).not.toBe(before?.version)
    await vi.waitFor(renewed, { timeout: 10_000 })
    await endProcess(leader.child)
    expect(await expectReleased(store, election)).toMatchObject({ term: 1 })
  })

  test('a guard that is cut off from the store only slows down the takeover after a crash', async () => {
    const proxy = await startProxy(server().port)
    onTestFinished(() => proxy.stop())
    const election = newElection()
    const storeUrl = `redis://127.0.0.1:${proxy.port}`
    const leader = await startLeader(server().url, { elections: [election], storeUrl, leaseDurationMs: 3_000 })
    await vi.waitFor(() => expect(proxy.opened).toBeGreaterThan(0))
    proxy.refuse()
    proxy.set('blackhole')
    const standby = await startStandby(server().url, election, { leaseDurationMs: 3_000 })
    const { explanation } = (await leader.tell('explain', 'explained')) as { explanation: Explanation }
    expect(explanation).toMatchObject({ isLeader: true })
    await endProcess(leader.child)
    const killedAt = performance.now()
    await standby.waitForLeadership({ signal: AbortSignal.timeout(30_000) })
    // Its newest renewal was at most a third of the lease ago.
    expect(performance.now() - killedAt).toBeGreaterThan(1_500)
    expect(proxy.swallowedBytes).toBeGreaterThan(0)
  })

  test('a process that is cut off from the store keeps its lease until it expires, although its guard reaches the store', async () => {
    const { proxy, election, leader, store } = await scene(false)
    // A busy machine does not cost the standby a lease of this length.
    const standby = await startStandby(server().url, election, { leaseDurationMs: 30_000 })
    proxy.refuse()
    proxy.set('blackhole')
    const cutAt = performance.now()
    await standby.waitForLeadership({ signal: AbortSignal.timeout(30_000) })
    // Its newest renewal was at most a third of the lease ago.
    expect(performance.now() - cutAt).toBeGreaterThan(3_000)
    const { explanation } = (await leader.tell('explain', 'explained')) as { explanation: Explanation }
    expect(explanation).toMatchObject({ isLeader: false })
    // Its guard must not release what somebody else holds either.
    await endProcess(leader.child)
    await delay(1_500)
    expect(await readRecord(store, election)).toMatchObject({ term: 2, released: false })
  })

  test('five hundred elections lead although the pipe is full before the guard has started', async () => {
    const elections = Array.from({ length: 500 }, () => newElection().padEnd(240, '-'))
    const options = { elections, identity: 'a'.padEnd(240, '-'), leaseDurationMs: 60_000 }
    const startedAt = performance.now()
    const leader = await startLeader(server().url, options)
    // Without the answers to the calls that waited for the pipe, each acquire would have to time out first.
    expect(performance.now() - startedAt).toBeLessThan(20_000)
    // An acquire waits for the pipe for 50 ms. Messages that the guard has not read by then are registered later.
    const armed = async () => expect(await leader.tell('explain', 'explained')).toMatchObject({ explanation })
    const explanation = { isLeader: true, releaseOnCrash: 'armed' }
    await vi.waitFor(armed, { timeout: 20_000 })
    await endProcess(leader.child)
    const store = await openedStore(server().url)
    for (const election of elections) await expectReleased(store, election)
  })
})
