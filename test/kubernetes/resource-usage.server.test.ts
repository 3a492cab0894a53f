import { describe, expect } from 'vitest'
import { describeWithCluster } from '../servers/suite.ts'
import { startChild } from './elector-process.ts'
import type { ApiServerProxy } from './api-server-proxy.ts'
import { nowMs, sceneTest, slackMs, timings, type TimedEvent } from './lease-fixture.ts'

const { leaseDurationMs } = timings

describeWithCluster('What leader election costs on a real API server', (cluster) => {
  const test = sceneTest(cluster)

  describe.concurrent('connections', () => {
    const eight = Array.from({ length: 8 }, (_, number) => `shared-${number}`)
    /** After a failed call, which can happen on a busy machine, no kept connection is used again. */
    const beginnings = (electors: readonly { readonly events: readonly TimedEvent[] }[]) =>
      1 + electors.flatMap(({ events }) => events.filter((event) => 'error' in event)).length
    const renewals = (events: readonly TimedEvent[]) => events.filter(({ type }) => type === 'renewed').length

    test('electors of one process that call at the same time use at most one connection each, plus one for the access review', async ({
      scene,
    }) => {
      scene.mayOverlap = true
      const proxy = await scene.proxy()
      const client = scene.client(proxy)
      const electors = eight.map((name) => scene.elector('pod-a', { client, election: `${scene.leaseName}-${name}` }))
      await scene.until(() => electors.every(({ events }) => renewals(events) >= 3))
      expect(proxy.opened).toBeLessThanOrEqual((electors.length + 1) * beginnings(electors))
    })

    test('electors of one process that call at different times share connections', async ({ scene }) => {
      scene.mayOverlap = true
      const proxy = await scene.proxy()
      const client = scene.client(proxy)
      const electors: ReturnType<typeof scene.elector>[] = []
      for (const name of eight) {
        const elector = scene.elector('pod-a', { client, election: `${scene.leaseName}-${name}` })
        await scene.event(elector, 'elected')
        electors.push(elector)
      }
      await scene.until(() => electors.every(({ events }) => renewals(events) >= 3))
      expect(proxy.opened).toBeLessThan(electors.length * beginnings(electors))
    })

    test('a standby uses one connection for its watch and at most one for its calls', async ({ scene }) => {
      const leader = scene.replica('pod-a')
      await scene.event(leader, 'elected')
      const proxy = await scene.proxy()
      const standby = scene.replica('pod-b', { via: proxy })
      const { atMs } = await scene.event(standby, 'new-leader')
      await scene.until(() => nowMs() - atMs > 3 * leaseDurationMs)
      expect(proxy.opened).toBeLessThanOrEqual(2)
      expect(standby.events.filter(({ type }) => type === 'error')).toEqual([])
    })
  })

  describe.concurrent('requests', () => {
    // The access review is sent once and not counted here.
    const toLeases = ({ requests }: ApiServerProxy) => requests.filter(({ path }) => !path.includes('/selfsubject'))
    const since = (front: ApiServerProxy, fromMs: number) => toLeases(front).filter(({ atMs }) => atMs > fromMs)

    test('a leader sends one request for each renewal, and an idle standby at most one per lease', async ({
      scene,
    }) => {
      const [leaderFront, standbyFront] = await Promise.all([scene.front(), scene.front()])
      const leader = scene.replica('pod-a', { via: leaderFront })
      await scene.event(leader, 'elected')
      scene.replica('pod-b', { via: standbyFront })
      await scene.until(() => standbyFront.requests.some(({ isWatch }) => isWatch))
      const { atMs: fromMs } = await scene.event(leader, 'renewed', nowMs())
      const leases = 5
      await scene.until(() => nowMs() - fromMs > leases * leaseDurationMs)
      const renewed = leader.events.filter(({ type, atMs }) => type === 'renewed' && atMs > fromMs).length
      expect(renewed).toBeGreaterThanOrEqual(3 * leases - 2)
      const sent = since(leaderFront, fromMs)
      expect(sent.map(({ method }) => method)).toEqual(Array.from(sent, () => 'PUT'))
      // One request may be in flight.
      expect([renewed, renewed + 1]).toContain(sent.length)
      const asked = since(standbyFront, fromMs)
      expect(asked.length).toBeLessThanOrEqual(leases)
      expect(asked.filter(({ isWatch, method }) => isWatch || method !== 'GET')).toEqual([])
    })

    test('an election costs two requests, a release one, and a takeover after a release one', async ({ scene }) => {
      const [leaderFront, standbyFront] = await Promise.all([scene.front(), scene.front()])
      const leader = scene.replica('pod-a', { via: leaderFront })
      await scene.event(leader, 'elected')
      const methods = (front: ApiServerProxy) =>
        toLeases(front).map(({ method, isWatch }) => (isWatch ? 'WATCH' : method))
      expect(methods(leaderFront)).toEqual(['GET', 'POST'])
      const standby = scene.replica('pod-b', { via: standbyFront })
      await scene.until(() => methods(standbyFront).includes('WATCH'))
      expect(methods(standbyFront)).toEqual(['GET', 'GET', 'WATCH'])
      await scene.event(leader, 'renewed', nowMs())
      const atMs = nowMs()
      leader.abort()
      await scene.event(standby, 'elected')
      await leader.run
      expect(since(leaderFront, atMs).map(({ method }) => method)).toEqual(['PUT'])
      expect(since(standbyFront, atMs).map(({ method }) => method)).toEqual(['PUT'])
    })
  })

  describe('after the end', () => {
    /** The resources of this thread that keep a process alive or memory in use. */
    const resources = () => process.getActiveResourcesInfo().filter((name) => /Timeout|TCP|TLS/.test(name)).length

    test('after all electors have stopped, there are as many sockets and timers as before they started', async ({
      scene,
    }) => {
      const proxy = await scene.proxy()
      const before = await scene.until(resources)
      for (let count = 0; count < 5; count++) {
        const leader = scene.replica('pod-a', { via: proxy, recordEvents: true })
        await scene.event(leader, 'elected')
        const standby = scene.replica('pod-b', { via: proxy, recordEvents: true })
        await scene.until(() => standby.elector.getLeader() === 'pod-a')
        expect(await scene.until(resources)).toBeGreaterThan(before)
        leader.abort()
        await scene.event(standby, 'elected')
        standby.abort()
        await Promise.all([leader.run, standby.run])
      }
      await scene.until(() => proxy.open === 0)
      await scene.until(() => resources() <= before)
    })

    test('a stopped Elector leaves only the resources of its store open, and close() releases them', async ({
      scene,
    }) => {
      const proxy = await scene.proxy()
      const before = await scene.until(resources)
      const { elector, store, events } = scene.elector('pod-a', { client: scene.client(proxy) })
      await scene.event({ events }, 'renewed')
      const standby = scene.elector('pod-b', { client: scene.client(proxy) })
      await scene.event(standby, 'new-leader')
      await Promise.all([elector.stop(), standby.elector.stop()])
      await Promise.all([store.close?.(), standby.store.close?.()])
      await scene.until(() => proxy.open === 0)
      await scene.until(() => resources() <= before)
    })

    test('nothing keeps the process of a stopped elector alive, whether it was a leader or a standby', async ({
      scene,
    }) => {
      const leader = startChild(scene, 'child-1', { style: 'LeaderElector', recordEvents: true })
      await scene.until(() => leader.messages.length > 0)
      const front = await scene.front()
      const standby = startChild(scene, 'child-2', { style: 'LeaderElector', via: front })
      await scene.until(() => front.requests.some(({ isWatch }) => isWatch))
      for (const child of [standby, leader]) {
        const atMs = nowMs()
        child.kill('SIGTERM')
        expect(await child.ended).toBe(0)
        expect(nowMs() - atMs).toBeLessThan(2 * slackMs)
        expect(child.errors()).toBe('')
      }
      expect((await scene.lease()).spec.holderIdentity ?? '').toBe('')
    })
  })
})
