import { setMaxListeners } from 'node:events'
import { Agent, globalAgent, request } from 'node:https'
import { describe, expect, test as plainTest } from 'vitest'
import type { Leadership } from '../../packages/tenure/src/engine/leadership.ts'
import { describeWithOwnCluster } from '../servers/suite.ts'
import { startChild } from './elector-process.ts'
import type { ApiServerProxy } from './api-server-proxy.ts'
import { overlaps } from './beliefs.ts'
import {
  lastConfirmedMs,
  nowMs,
  roundTripMs,
  sceneTest,
  slackMs,
  timings,
  untilAborted,
  within,
  type Replica,
  type Scene,
} from './lease-fixture.ts'

const { leaseDurationMs, retryPeriodMs } = timings
/** A leader starts to renew after a retry period, and then tries for `renewDeadlineMs`. */
const deadlineMs = retryPeriodMs + timings.renewDeadlineMs
/** The longest time until a candidate abandons a call. */
const callMs = deadlineMs - retryPeriodMs
/** Timings of leaders that must keep their lease even on a busy machine. */
const patient = { leaseDurationMs: 6_000, renewDeadlineMs: 4_500, retryPeriodMs: 800 }
const patientDeadlineMs = patient.retryPeriodMs + patient.renewDeadlineMs

plainTest('overlaps finds beliefs that were held at the same time', () => {
  const believe = (fromMs: number, toMs: number) => ({ identity: 'pod', term: 1, fromMs, toMs })
  const [first, second, third] = [believe(0, 10), believe(9, Infinity), believe(10, 11)]
  expect(overlaps([first, third])).toEqual([])
  expect(overlaps([first, second, third])).toEqual([
    [first, second],
    [second, third],
  ])
})

describeWithOwnCluster('Leader election on a real API server, with faults', (cluster) => {
  const test = sceneTest(cluster)

  describe('the API server', () => {
    test('the leader keeps its term when the API server is killed and is back within the deadline, and the standby follows', async ({
      scene,
    }) => {
      // The API server takes some seconds to start.
      const slow = { leaseDurationMs: 30_000, renewDeadlineMs: 24_000, retryPeriodMs: 1_000 }
      const leader = scene.replica('pod-a', slow)
      await scene.event(leader, 'elected')
      const standby = scene.replica('pod-b', slow)
      await scene.until(() => standby.elector.getLeader() === 'pod-a')
      await scene.cluster.restart('SIGKILL')
      expect(await scene.event(leader, 'renewed')).toMatchObject({ term: 1 })
      expect(leader.callbackCalls).toEqual(['leader pod-a', 'started 1', 'work ends'])
      expect(standby.callbackCalls).toEqual(['leader pod-a'])
      leader.abort()
      expect(await scene.event(standby, 'elected')).toMatchObject({ term: 2 })
    })

    test('the leader stops at its deadline when the API server is down for longer, and is elected again', async ({
      scene,
    }) => {
      const leader = scene.replica('pod-a', { work: untilAborted })
      await scene.event(leader, 'renewed')
      await scene.cluster.kill('SIGKILL')
      const lost = await scene.event(leader, 'lost')
      expect(lost).toMatchObject({ term: 1, reason: 'expired' })
      stoppedAtDeadline(scene, leader)
      expect(leader.leadership()?.signal).toMatchObject({ aborted: true, reason: { reason: 'expired' } })
      expect(leader.events.find(({ type }) => type === 'renew-failed')).toMatchObject({
        error: { code: 'BACKEND_UNAVAILABLE', retryable: true },
      })
      await scene.cluster.start()
      expect(await scene.event(leader, 'elected', lost.atMs)).toMatchObject({ term: 2 })
    })

    test('the leader keeps its term when the API server is paused for less than the deadline', async ({ scene }) => {
      const [leader] = await leaderAndOther(scene, scene.replica('pod-a', patient), scene.replica('pod-b', patient))
      await scene.event(leader, 'renewed')
      scene.cluster.pause()
      const pausedMs = lastConfirmedMs(leader)
      await scene.until(() => nowMs() - pausedMs > patient.leaseDurationMs / 3 + 100)
      scene.cluster.resume()
      expect(await scene.event(leader, 'renewed', pausedMs)).toMatchObject({ term: 1 })
      expect(scene.beliefs).toHaveLength(1)
    })

    test('nobody leads while the API server is paused for longer than the lease, and then somebody leads in a higher term', async ({
      scene,
    }) => {
      const [leader, other] = await leaderAndOther(scene, scene.replica('pod-a'), scene.replica('pod-b'))
      await scene.event(leader, 'renewed')
      scene.cluster.pause()
      await scene.event(leader, 'lost')
      stoppedAtDeadline(scene, leader)
      await scene.until(() => nowMs() - lastConfirmedMs(leader) > leaseDurationMs + retryPeriodMs)
      expect([leader, other].map(({ elector }) => elector.isLeader())).toEqual([false, false])
      scene.cluster.resume()
      await scene.until(() => scene.beliefs.length === 2)
      expect(scene.beliefs.map(({ term }) => term)).toEqual([1, 2])
    })
  })

  describe.concurrent('the network', () => {
    test('the leader continues on a new connection when the connections hang half open', async ({ scene }) => {
      const proxy = await scene.proxy()
      const leader = scene.replica('pod-a', { via: proxy, ...patient })
      await scene.event(leader, 'renewed')
      const before = proxy.opened
      proxy.freezeExisting()
      expect(await scene.event(leader, 'renewed', nowMs())).toMatchObject({ term: 1 })
      expect(leader.events.find(({ type }) => type === 'renew-failed')).toMatchObject({ error: { code: 'TIMEOUT' } })
      expect(proxy.opened).toBeGreaterThan(before)
      expect(leader.callbackCalls).not.toContain('stopped')
    })

    test('the leader continues when connections are reset', async ({ scene }) => {
      const proxy = await scene.proxy()
      const leader = scene.replica('pod-a', { via: proxy, ...patient })
      for (let count = 0; count < 3; count++) {
        await scene.event(leader, 'renewed', nowMs())
        proxy.reset()
      }
      await scene.event(leader, 'renewed', nowMs())
      expect(scene.beliefs).toHaveLength(1)
    })

    for (const direction of [undefined, 'to-client', 'to-server'] as const) {
      test(`a successor takes over from a leader that is cut off${direction ? ` in one direction, ${direction}` : ''}`, async ({
        scene,
      }) => {
        const proxy = await scene.proxy()
        const leader = scene.replica('pod-a', { via: proxy })
        await scene.event(leader, 'elected')
        const standby = scene.replica('pod-b')
        await scene.until(() => standby.elector.getLeader() === 'pod-a')
        await scene.event(leader, 'renewed')
        proxy.set('blackhole', direction)
        const elected = await scene.event(standby, 'elected')
        expect(elected.term).toBe(2)
        // Renewals may arrive until the deadline, although their sender never gets an answer.
        const moreMs = direction === 'to-client' ? deadlineMs : 0
        within(
          elected.atMs - lastConfirmedMs(leader),
          leaseDurationMs - roundTripMs,
          leaseDurationMs + moreMs + slackMs,
        )
        stoppedAtDeadline(scene, leader)
      })
    }

    test('a standby whose watch is cut takes over after a release at its next poll', async ({ scene }) => {
      const leader = scene.replica('pod-a')
      await scene.event(leader, 'elected')
      const proxy = await scene.proxy()
      const standby = scene.elector('pod-b', { client: scene.client(proxy) })
      await isWatching(scene, leader, standby)
      proxy.reset()
      const { atMs } = await release(leader)
      const elected = await scene.event(standby, 'elected')
      expect(elected.atMs - atMs).toBeLessThan(1.5 * retryPeriodMs + slackMs)
    })

    test('a standby whose watch goes silent takes over after a release once the lease would have expired', async ({
      scene,
    }) => {
      const leader = scene.replica('pod-a')
      await scene.event(leader, 'elected')
      const proxy = await scene.proxy()
      const standby = scene.elector('pod-b', { client: scene.client(proxy) })
      await isWatching(scene, leader, standby)
      proxy.freezeExisting()
      const { atMs } = await release(leader)
      const elected = await scene.event(standby, 'elected')
      expect(elected.term).toBe(2)
      // The first call may hang on a kept connection until its timeout.
      expect(elected.atMs - atMs).toBeLessThan(leaseDurationMs + callMs + 1.5 * retryPeriodMs + slackMs)
    })

    test('a standby without the right to watch polls, and does not retry the watch repeatedly', async ({ scene }) => {
      const leader = scene.replica('pod-a')
      const { via } = await scene.account(['get', 'create', 'update'])
      await scene.event(leader, 'elected')
      const front = await scene.front()
      const standby = scene.replica('pod-b', { via: { ...via, port: front.port } })
      await scene.until(() => front.requests.length > 8)
      expect(front.requests.filter(({ isWatch }) => isWatch)).toHaveLength(1)
      expect(await scene.event(standby, 'error')).toMatchObject({ error: { code: 'UNAUTHORIZED' } })
      expect(standby.events.filter(({ type }) => type === 'error')).toHaveLength(1)
      const { atMs } = await release(leader)
      const elected = await scene.event(standby, 'elected')
      expect(elected.atMs - atMs).toBeLessThan(1.5 * retryPeriodMs + slackMs)
    })

    test('an acquire whose answer is lost is resolved by a read and uses one term', async ({ scene }) => {
      const front = await scene.front()
      loseOne(front, 'POST')
      let untilMs = NaN
      const work = (_signal: AbortSignal, leadership: Leadership) => void (untilMs = nowMs() + leadership.remainingMs())
      const leader = scene.replica('pod-a', { via: front, work })
      expect(await scene.event(leader, 'elected')).toMatchObject({ term: 1 })
      expect(leader.events[0]).toMatchObject({ type: 'error', error: { code: 'TIMEOUT' } })
      const sent = front.requests.find(({ method }) => method === 'POST')?.atMs ?? NaN
      await scene.until(() => leader.callbackCalls.includes('started 1'))
      expect(untilMs, 'the lease counts from the first transmission').toBeLessThanOrEqual(sent + deadlineMs)
      await scene.event(leader, 'renewed')
      expect((await scene.lease()).spec).toMatchObject({ holderIdentity: 'pod-a', leaseTransitions: 1 })
    })

    test('a renewal whose answer is lost is repeated and does not end the term', async ({ scene }) => {
      const front = await scene.front()
      const leader = scene.replica('pod-a', { via: front, ...patient })
      await scene.event(leader, 'renewed')
      loseOne(front, 'PUT')
      const failed = await scene.event(leader, 'renew-failed')
      expect(failed).toMatchObject({ error: { code: 'TIMEOUT' } })
      expect(await scene.event(leader, 'renewed', failed.atMs)).toMatchObject({ term: 1 })
      expect(scene.beliefs).toHaveLength(1)
    })

    test('a release whose answer is lost still releases the Lease', async ({ scene }) => {
      const front = await scene.front()
      const leader = scene.replica('pod-a', { via: front })
      await scene.event(leader, 'elected')
      const standby = scene.replica('pod-b')
      await scene.until(() => standby.elector.getLeader() === 'pod-a')
      loseOne(front, 'PUT')
      const { atMs } = await release(leader)
      expect(nowMs() - atMs).toBeLessThan(leaseDurationMs / 3 + slackMs)
      expect((await scene.event(standby, 'elected')).atMs - atMs).toBeLessThan(retryPeriodMs)
    })

    test('renewals succeed when their answers are late but within the timeout', async ({ scene }) => {
      const proxy = await scene.proxy()
      const leader = scene.replica('pod-a', { via: proxy, ...patient })
      await scene.event(leader, 'elected')
      proxy.set({ delayMs: 250 }, 'to-client')
      const first = await scene.event(leader, 'renewed')
      await scene.event(leader, 'renewed', first.atMs)
      expect(leader.events.filter(({ type }) => type === 'renew-failed')).toEqual([])
      expect(leader.leadership()?.remainingMs(), 'the lease counts from the transmission').toBeLessThan(
        patientDeadlineMs - 250,
      )
    })
  })

  describe('many candidates', () => {
    test(
      'one of 20 candidates on one Lease leads at a time, and each acquisition uses one term',
      { timeout: 60_000 },
      async ({ scene }) => {
        const children = ['child-1', 'child-2', 'child-3', 'child-4'].map((identity) => startChild(scene, identity))
        await scene.until(() => children.every(({ messages }) => messages.length > 0))
        const electors = Array.from({ length: 16 }, (_, number) => scene.elector(`pod-${number}`))
        for (const child of children) child.send('campaign')
        const terms = () =>
          [
            ...scene.beliefs.map(({ term }) => term),
            ...children.flatMap(({ messages }) =>
              messages.flatMap((told) => (told.event === 'elected' ? [told.term] : [])),
            ),
          ].sort((one, other) => (one ?? 0) - (other ?? 0))
        const rounds = 50
        for (let term = 1; term <= rounds; term++) {
          await scene.until(() => terms().length >= term)
          const inProcess = electors.find(({ elector }) => elector.isLeader())
          const elsewhere = children.find(({ messages }) => messages.at(-1)?.event === 'elected')
          expect([inProcess, elsewhere].filter(Boolean)).toHaveLength(1)
          void inProcess?.elector.stepDown({ cooldownMs: 0 })
          elsewhere?.send('stepDown')
        }
        await scene.until(() => terms().length > rounds)
        expect(terms()).toEqual(Array.from({ length: rounds + 1 }, (_, index) => index + 1))
        expect((await scene.lease()).spec.leaseTransitions).toBe(rounds + 1)
        for (const { identity, messages } of children) {
          for (const { event, term = 0, atMs: fromMs } of messages) {
            if (event !== 'elected') continue
            const toMs = messages.find((told) => told.event === 'aborted' && told.term === term)?.atMs ?? Infinity
            scene.beliefs.push({ identity, term, fromMs, toMs })
          }
        }
      },
    )
  })

  describe.concurrent('manual edits with kubectl', () => {
    /** Starts a leader and a standby that watches it, then edits their Lease. */
    async function pair(scene: Scene, edit: () => Promise<unknown>) {
      const leader = scene.replica('pod-a', { work: untilAborted })
      await scene.event(leader, 'elected')
      const standby = scene.elector('pod-b')
      await isWatching(scene, leader, standby)
      const fromMs = nowMs()
      await edit()
      return { leader, standby, fromMs, toMs: nowMs() }
    }

    /** Checks that the leader noticed the write at its next renewal, and that the standby waited for a whole lease. */
    async function isSucceeded(scene: Scene, { leader, standby, fromMs, toMs }: Awaited<ReturnType<typeof pair>>) {
      const elected = await scene.event(standby, 'elected')
      expect(elected.term).toBe(2)
      expect(elected.atMs - fromMs).toBeGreaterThan(leaseDurationMs)
      expect(elected.atMs - toMs).toBeLessThan(leaseDurationMs + slackMs)
      expect(leader.leadership()?.signal.reason).toMatchObject({ reason: 'superseded' })
      expect(beliefOf(scene, leader).toMs - toMs).toBeLessThan(retryPeriodMs + slackMs)
      expect((await scene.lease()).spec).toMatchObject({ holderIdentity: 'pod-b', leaseTransitions: 2 })
    }

    test('the leader stops at its next renewal when somebody deletes its Lease, and nobody leads before the lease expires', async ({
      scene,
    }) => {
      await isSucceeded(scene, await pair(scene, () => scene.deleteLease()))
    })

    test('terms continue above the highest one seen when somebody deletes the Lease and a newcomer starts with term 1', async ({
      scene,
    }) => {
      const leader = scene.replica('pod-a')
      await scene.event(leader, 'elected')
      await scene.patch({ spec: { leaseTransitions: 41, holderIdentity: '' }, metadata: { annotations: null } })
      const { atMs } = await scene.event(leader, 'lost')
      expect(await scene.event(leader, 'elected', atMs)).toMatchObject({ term: 42 })
      const standby = scene.replica('pod-b')
      await scene.until(() => standby.elector.getLeader() === 'pod-a')
      // The leader and the standby wait until the deleted lease would have expired. A candidate that never saw it does not.
      await scene.deleteLease()
      const newcomer = scene.replica('pod-c')
      scene.mayOverlap = true
      expect(await scene.event(newcomer, 'elected')).toMatchObject({ term: 1 })
      await release(newcomer)
      await scene.until(() => scene.beliefs.length === 4)
      expect(scene.beliefs.map(({ term }) => term)).toEqual([1, 42, 1, 43])
    })

    test('the leader continues when somebody adds a label to its Lease', async ({ scene }) => {
      const edit = () => scene.patch({ metadata: { labels: { team: 'payments' } } })
      const { leader, standby, toMs } = await pair(scene, edit)
      expect(await scene.event(leader, 'renewed', toMs)).toMatchObject({ term: 1 })
      const { metadata, spec } = await scene.lease()
      expect(metadata.labels).toEqual({ team: 'payments' })
      expect(spec).toMatchObject({ holderIdentity: 'pod-a', leaseTransitions: 1 })
      expect([leader, standby].map(({ elector }) => elector.isLeader())).toEqual([true, false])
    })

    test('the leader stops at its next renewal when somebody writes another holder into its Lease', async ({
      scene,
    }) => {
      const two = await pair(scene, () => scene.patch({ spec: { holderIdentity: 'somebody' } }))
      await scene.until(() => two.standby.elector.leader()?.holder === 'somebody')
      await isSucceeded(scene, two)
    })

    test('the leader stops when somebody removes the annotations, because it cannot recognize its lease', async ({
      scene,
    }) => {
      await isSucceeded(scene, await pair(scene, () => scene.patch({ metadata: { annotations: null } })))
    })

    test('the next renewal restores a duration that somebody changed', async ({ scene }) => {
      for (const leaseDurationSeconds of [3_600, 2]) {
        const { leader, standby, toMs } = await pair(scene, () => scene.patch({ spec: { leaseDurationSeconds } }))
        expect(await scene.event(leader, 'renewed', toMs)).toMatchObject({ record: { leaseDurationMs } })
        expect((await scene.lease()).spec).toMatchObject({ holderIdentity: 'pod-a', leaseDurationSeconds: 3 })
        expect([leader, standby].map(({ elector }) => elector.isLeader())).toEqual([true, false])
        await standby.elector.stop()
        await release(leader)
      }
    })

    test('the next renewal restores a holder that somebody removed, which is not a release', async ({ scene }) => {
      const { leader, standby, toMs } = await pair(scene, () => scene.patch({ spec: { holderIdentity: '' } }))
      expect(await scene.event(leader, 'renewed', toMs)).toMatchObject({ term: 1 })
      expect((await scene.lease()).spec).toMatchObject({ holderIdentity: 'pod-a', leaseTransitions: 1 })
      expect([leader, standby].map(({ elector }) => elector.isLeader())).toEqual([true, false])
      expect(scene.beliefs).toHaveLength(1)
    })

    test('the leader stops at its next renewal when somebody removes the holder and the annotations', async ({
      scene,
    }) => {
      // No elector can detect this. Fencing covers this case.
      scene.mayOverlap = true
      const edit = () => scene.patch({ spec: { holderIdentity: '' }, metadata: { annotations: null } })
      const { leader, standby, toMs } = await pair(scene, edit)
      expect(await scene.event(standby, 'elected')).toMatchObject({ term: 2 })
      await scene.event(leader, 'lost')
      expect(leader.leadership()?.signal.reason).toMatchObject({ reason: 'superseded', term: 1 })
      expect(beliefOf(scene, leader).toMs - toMs).toBeLessThan(retryPeriodMs + slackMs)
    })
  })

  describe.concurrent('a leader', () => {
    test('isLeader is false at the first call after a pause longer than the lease, and the successor has a higher term', async ({
      scene,
    }) => {
      const child = startChild(scene, 'child')
      const told = (event: string) => child.messages.find((message) => message.event === event)
      await scene.until(() => told('ready'))
      child.send('campaign')
      const { term, atMs: fromMs } = await scene.until(() => told('elected'))
      const standby = scene.replica('pod-b')
      await scene.until(() => standby.elector.getLeader() === 'child')
      child.send('askThroughPause')
      await scene.until(() => told('asking'))
      child.kill('SIGSTOP')
      const elected = await scene.event(standby, 'elected')
      expect([term, elected.term]).toEqual([1, 2])
      child.kill('SIGCONT')
      expect(await scene.until(() => told('resumed'))).toMatchObject({ ledBefore: true, leads: false })
      await scene.until(() => told('lost'))
      // The child believed at most until it was paused. Its successor was elected a whole lease after the child's last renewal.
      scene.beliefs.push({ identity: 'child', term: 1, fromMs, toMs: (told('asking')?.atMs ?? NaN) + slackMs })
      standby.abort()
      await scene.until(() => child.messages.some((message) => message.event === 'elected' && message.term === 3))
      child.send('stop')
      expect(await child.ended).toBe(0)
    })

    test('a leader whose right is withdrawn stops by its deadline, reports why, and leads again once it has the right', async ({
      scene,
    }) => {
      const { via, withdraw, grant } = await scene.account(['get', 'create', 'update', 'watch'])
      const leader = scene.replica('pod-a', { via })
      await scene.event(leader, 'renewed')
      await withdraw()
      const lost = await scene.event(leader, 'lost')
      stoppedAtDeadline(scene, leader)
      const failed = leader.events.flatMap((event) => (event.type === 'renew-failed' ? [event.error] : []))
      expect(failed.length).toBeGreaterThan(0)
      for (const error of failed)
        expect(error).toMatchObject({ code: 'UNAUTHORIZED', message: expect.stringMatching(/update Lease.*403/) })
      expect(await scene.event(leader, 'error', lost.atMs)).toMatchObject({ error: { code: 'UNAUTHORIZED' } })
      await grant()
      expect(await scene.event(leader, 'elected', lost.atMs)).toMatchObject({ term: 2 })
    })

    test('an elector without the right to review its access reports nothing about it and sends one review', async ({
      scene,
    }) => {
      const { admin } = scene.cluster
      const path = '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:basic-user'
      const { body } = await admin.request<{ metadata: Record<string, unknown> }>('GET', path)
      const { via } = await scene.account(['get', 'create', 'watch'])
      const ask = () =>
        admin.request(
          'POST',
          '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
          { spec: { nonResourceAttributes: { path: '/', verb: 'get' } } },
          via.token(),
        )
      await admin.request('DELETE', path)
      scene.onEnd(() =>
        admin.request('POST', path.slice(0, path.lastIndexOf('/')), {
          ...body,
          metadata: {
            name: 'system:basic-user',
            labels: body.metadata['labels'],
            annotations: body.metadata['annotations'],
          },
        }),
      )
      await scene.until(async () => (await ask()).status === 403)
      const front = await scene.front()
      const leader = scene.replica('pod-a', { via: { ...via, port: front.port } })
      await scene.event(leader, 'elected')
      await scene.event(leader, 'lost')
      const reviews = front.requests.filter(({ path: asked }) => asked.includes('/selfsubject'))
      expect(reviews).toHaveLength(1)
      const codes = leader.events.flatMap((event) => ('error' in event ? [event.error] : []))
      for (const error of codes)
        expect(error).toMatchObject({ code: 'UNAUTHORIZED', message: expect.stringMatching(/update Lease.*403/) })
    })

    test('a leader whose token is invalidated stops by its deadline and leads again with a new token', async ({
      scene,
    }) => {
      const { via, remove, create } = await scene.account(['get', 'create', 'update', 'watch'])
      const leader = scene.replica('pod-a', { via })
      await scene.event(leader, 'renewed')
      await remove()
      // The API server caches a valid token for ten seconds.
      const failed = await scene.event(leader, 'renew-failed')
      expect(failed).toMatchObject({ error: { code: 'UNAUTHORIZED', message: expect.stringMatching(/401/) } })
      const lost = await scene.event(leader, 'lost')
      stoppedAtDeadline(scene, leader)
      await create()
      expect(await scene.event(leader, 'elected', lost.atMs)).toMatchObject({ term: 2 })
    })

    const overloaded = (status: number) => ({
      status,
      headers: { 'retry-after': '60' },
      body: { kind: 'Status', apiVersion: 'v1', status: 'Failure', code: status, message: 'too busy' },
    })

    test('a leader that gets 429 with a Retry-After of a minute retries within its lease', async ({ scene }) => {
      const front = await scene.front()
      const leader = scene.replica('pod-a', { via: front, ...patient })
      await scene.event(leader, 'renewed')
      front.answer = () => overloaded(429)
      const atMs = nowMs()
      const failed = await scene.event(leader, 'renew-failed')
      await scene.event(leader, 'renew-failed', failed.atMs)
      front.answer = undefined
      expect(await scene.event(leader, 'renewed', nowMs())).toMatchObject({ term: 1 })
      expect(scene.beliefs).toHaveLength(1)
      expectPaced(front.requests.filter(({ atMs: sentMs }) => sentMs > atMs).map(({ atMs: sentMs }) => sentMs))
    })

    test('a leader that gets 503 for longer than its lease steps down, and neither floods the server nor waits a minute', async ({
      scene,
    }) => {
      const front = await scene.front()
      const leader = scene.replica('pod-a', { via: front })
      await scene.event(leader, 'renewed')
      front.answer = () => overloaded(503)
      const atMs = nowMs()
      const lost = await scene.event(leader, 'lost')
      stoppedAtDeadline(scene, leader)
      await scene.until(() => nowMs() - lost.atMs > leaseDurationMs)
      const asked = front.requests.map(({ atMs: sentMs }) => sentMs).filter((sentMs) => sentMs > atMs)
      expectPaced(asked.filter((sentMs) => sentMs < lost.atMs))
      expect(asked.length).toBeLessThan((nowMs() - atMs) / (retryPeriodMs / 2))
      front.answer = undefined
      const healedMs = nowMs()
      const elected = await scene.event(leader, 'elected', lost.atMs)
      expect(elected.term).toBe(2)
      expect(elected.atMs - healedMs).toBeLessThan(1.5 * retryPeriodMs + slackMs)
    })
  })

  // Runs alone, because flooding this process would stall every other test in it.
  describe('a program', () => {
    test('a program that has used up its sockets does not delay renewals', async ({ scene }) => {
      const front = await scene.front()
      front.answer = ({ path }) => (path.startsWith('/slow') ? 'silence' : undefined)
      const client = scene.client(front)
      const leader = scene.replica('pod-a', { client })
      await scene.event(leader, 'elected')
      const ending = new AbortController()
      const { signal } = ending
      setMaxListeners(0, signal)
      scene.onEnd(() => ending.abort())
      // Floods through the same client, through Node's own agent, and through an agent with one socket.
      const none = () => undefined
      for (let count = 0; count < 50; count++) {
        client.request({ method: 'GET', path: `/slow/${count}`, signal, timeoutMs: 20_000 }).catch(none)
      }
      const narrow = new Agent({ maxSockets: 1 })
      for (const agent of [globalAgent, narrow]) {
        for (let count = 0; count < 50; count++) {
          request({ port: front.port, host: '127.0.0.1', path: '/slow', ca: scene.cluster.ca, agent, signal })
            .on('error', none)
            .end()
        }
      }
      await scene.until(() => front.requests.filter(({ path }) => path.startsWith('/slow')).length > 100)
      const floodedMs = nowMs()
      let { atMs } = await scene.event(leader, 'renewed', floodedMs)
      for (let count = 0; count < 3; count++) {
        const next = await scene.event(leader, 'renewed', atMs)
        within(next.atMs - atMs, 0, retryPeriodMs + slackMs)
        atMs = next.atMs
      }
      expect(leader.events.filter((event) => event.type === 'renew-failed' && event.atMs > floodedMs)).toEqual([])
    })
  })
})

/** Checks that the times are at least a retry period apart. */
function expectPaced(times: readonly number[]): void {
  expect(times.length).toBeGreaterThan(1)
  for (const [index, atMs] of times.slice(1).entries()) {
    expect(atMs - (times[index] ?? NaN)).toBeGreaterThan(retryPeriodMs - 100)
  }
}

/** Lets the next such request reach the API server and drops its answer. */
function loseOne(front: ApiServerProxy, method: string): void {
  front.answer = (request) => {
    if (request.method !== method) return undefined
    front.answer = undefined
    return 'reply lost'
  }
}

/** Ends a replica, and returns the earliest moment at which the lease was released. */
async function release(replica: Replica): Promise<{ atMs: number }> {
  const atMs = nowMs()
  replica.abort()
  await replica.run
  return { atMs }
}

/** Checks that the leader stopped at its deadline, which counts from when its last renewal was sent. */
function stoppedAtDeadline(scene: Scene, leader: Replica): void {
  const heldForMs = beliefOf(scene, leader).toMs - lastConfirmedMs(leader)
  within(heldForMs, deadlineMs - roundTripMs, deadlineMs + slackMs)
}

function beliefOf(scene: Scene, { identity }: Replica) {
  const belief = scene.beliefs.find((one) => one.identity === identity)
  if (!belief) throw new Error(`${identity} never led`)
  return belief
}

/** Waits until the standby has an open watch, which shows the newest version at once. */
async function isWatching(scene: Scene, leader: Replica, standby: ReturnType<Scene['elector']>): Promise<void> {
  await scene.until(() => standby.elector.leader())
  const { record } = await scene.event(leader, 'renewed', nowMs())
  await scene.until(() => standby.elector.leader()?.version === record.version)
}

function leaderOf(scene: Scene, replicas: readonly Replica[]): Promise<Replica> {
  return scene.until(() => replicas.find(({ elector }) => elector.isLeader()))
}

async function leaderAndOther(scene: Scene, one: Replica, other: Replica): Promise<[Replica, Replica]> {
  const leader = await leaderOf(scene, [one, other])
  const standby = leader === one ? other : one
  await scene.until(() => standby.elector.getLeader() === leader.identity)
  return [leader, standby]
}
