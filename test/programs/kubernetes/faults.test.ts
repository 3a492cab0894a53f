import { setMaxListeners } from 'node:events'
import { Agent, globalAgent, request } from 'node:https'
import { describe, expect, test as plainTest } from 'vitest'
import type { Leadership } from '../../../packages/tenure/src/leadership.ts'
import { describeWithOwnCluster } from '../../servers/suite.ts'
import { startChild } from '../../kubernetes/child.ts'
import type { Front } from '../../kubernetes/front.ts'
import { overlaps } from '../../kubernetes/beliefs.ts'
import {
  lastHeardMs,
  nowMs,
  roundTripMs,
  sceneTest,
  slackMs,
  timings,
  untilAborted,
  within,
  type Replica,
  type Scene,
} from '../../kubernetes/scene.ts'

const { leaseDurationMs, retryPeriodMs } = timings
/** A leader begins to renew after a retry period, and then tries for `renewDeadlineMs`. */
const deadlineMs = retryPeriodMs + timings.renewDeadlineMs
/** Until a candidate's call is given up at the latest. */
const callMs = deadlineMs - retryPeriodMs
/** For leaders who are to go on, on a busy machine too. */
const patient = { leaseDurationMs: 6_000, renewDeadlineMs: 4_500, retryPeriodMs: 800 }
const patientDeadlineMs = patient.retryPeriodMs + patient.renewDeadlineMs

plainTest('beliefs that were held at the same time are found', () => {
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
    test('killed and back within the deadline: same leader, same term, and its standby follows', async ({ scene }) => {
      // It takes some seconds to start.
      const slow = { leaseDurationMs: 30_000, renewDeadlineMs: 24_000, retryPeriodMs: 1_000 }
      const leader = scene.replica('pod-a', slow)
      await scene.event(leader, 'elected')
      const standby = scene.replica('pod-b', slow)
      await scene.until(() => standby.elector.getLeader() === 'pod-a')
      await scene.cluster.restart('SIGKILL')
      expect(await scene.event(leader, 'renewed')).toMatchObject({ term: 1 })
      expect(leader.told).toEqual(['leader pod-a', 'started 1', 'work ends'])
      expect(standby.told).toEqual(['leader pod-a'])
      leader.abort()
      expect(await scene.event(standby, 'elected')).toMatchObject({ term: 2 })
    })

    test('killed for longer: the leader stops at its deadline, and is elected again', async ({ scene }) => {
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

    test('paused within the deadline: nothing changes', async ({ scene }) => {
      const [leader] = await leaderAndOther(scene, scene.replica('pod-a', patient), scene.replica('pod-b', patient))
      await scene.event(leader, 'renewed')
      scene.cluster.pause()
      const pausedMs = lastHeardMs(leader)
      await scene.until(() => nowMs() - pausedMs > patient.leaseDurationMs / 3 + 100)
      scene.cluster.resume()
      expect(await scene.event(leader, 'renewed', pausedMs)).toMatchObject({ term: 1 })
      expect(scene.beliefs).toHaveLength(1)
    })

    test('paused for longer than the lease: nobody leads, then somebody does, in a higher term', async ({ scene }) => {
      const [leader, other] = await leaderAndOther(scene, scene.replica('pod-a'), scene.replica('pod-b'))
      await scene.event(leader, 'renewed')
      scene.cluster.pause()
      await scene.event(leader, 'lost')
      stoppedAtDeadline(scene, leader)
      await scene.until(() => nowMs() - lastHeardMs(leader) > leaseDurationMs + retryPeriodMs)
      expect([leader, other].map(({ elector }) => elector.isLeader())).toEqual([false, false])
      scene.cluster.resume()
      await scene.until(() => scene.beliefs.length === 2)
      expect(scene.beliefs.map(({ term }) => term)).toEqual([1, 2])
    })
  })

  describe.concurrent('the network', () => {
    test('connections that hang half open: the leader goes on through a fresh one', async ({ scene }) => {
      const proxy = await scene.proxy()
      const leader = scene.replica('pod-a', { via: proxy, ...patient })
      await scene.event(leader, 'renewed')
      const before = proxy.opened
      proxy.freezeExisting()
      expect(await scene.event(leader, 'renewed', nowMs())).toMatchObject({ term: 1 })
      expect(leader.events.find(({ type }) => type === 'renew-failed')).toMatchObject({ error: { code: 'TIMEOUT' } })
      expect(proxy.opened).toBeGreaterThan(before)
      expect(leader.told).not.toContain('stopped')
    })

    test('connections that are reset: the leader goes on', async ({ scene }) => {
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
      test(`a leader that is cut off${direction ? ` one way, ${direction}` : ''} is succeeded`, async ({ scene }) => {
        const proxy = await scene.proxy()
        const leader = scene.replica('pod-a', { via: proxy })
        await scene.event(leader, 'elected')
        const standby = scene.replica('pod-b')
        await scene.until(() => standby.elector.getLeader() === 'pod-a')
        await scene.event(leader, 'renewed')
        proxy.set('blackhole', direction)
        const elected = await scene.event(standby, 'elected')
        expect(elected.term).toBe(2)
        // Renewals may arrive until its deadline, although their sender never hears of it.
        const moreMs = direction === 'to-client' ? deadlineMs : 0
        within(elected.atMs - lastHeardMs(leader), leaseDurationMs - roundTripMs, leaseDurationMs + moreMs + slackMs)
        stoppedAtDeadline(scene, leader)
      })
    }

    test('a standby whose watch is cut takes a release over at its next poll', async ({ scene }) => {
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

    test('a standby whose watch falls silent takes a release over once the lease would have run out', async ({
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
      // The first call may hang on the connection that was kept, until its bound.
      expect(elected.atMs - atMs).toBeLessThan(leaseDurationMs + callMs + 1.5 * retryPeriodMs + slackMs)
    })

    test('a standby that may not watch polls, and does not ask to watch again and again', async ({ scene }) => {
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

    test('an election whose answer is lost is found out by reading, and is one term', async ({ scene }) => {
      const front = await scene.front()
      loseOne(front, 'POST')
      let untilMs = NaN
      const work = (_signal: AbortSignal, leadership: Leadership) => void (untilMs = nowMs() + leadership.remainingMs())
      const leader = scene.replica('pod-a', { via: front, work })
      expect(await scene.event(leader, 'elected')).toMatchObject({ term: 1 })
      expect(leader.events[0]).toMatchObject({ type: 'error', error: { code: 'TIMEOUT' } })
      const sent = front.requests.find(({ method }) => method === 'POST')?.atMs ?? NaN
      await scene.until(() => leader.told.includes('started 1'))
      expect(untilMs, 'counts from the first sending').toBeLessThanOrEqual(sent + deadlineMs)
      await scene.event(leader, 'renewed')
      expect((await scene.lease()).spec).toMatchObject({ holderIdentity: 'pod-a', leaseTransitions: 1 })
    })

    test('a renewal whose answer is lost is repeated, and is no loss', async ({ scene }) => {
      const front = await scene.front()
      const leader = scene.replica('pod-a', { via: front, ...patient })
      await scene.event(leader, 'renewed')
      loseOne(front, 'PUT')
      const failed = await scene.event(leader, 'renew-failed')
      expect(failed).toMatchObject({ error: { code: 'TIMEOUT' } })
      expect(await scene.event(leader, 'renewed', failed.atMs)).toMatchObject({ term: 1 })
      expect(scene.beliefs).toHaveLength(1)
    })

    test('a release whose answer is lost is a release', async ({ scene }) => {
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

    test('an answer that comes late, but within its bound, ends nothing', async ({ scene }) => {
      const proxy = await scene.proxy()
      const leader = scene.replica('pod-a', { via: proxy, ...patient })
      await scene.event(leader, 'elected')
      proxy.set({ delayMs: 250 }, 'to-client')
      const first = await scene.event(leader, 'renewed')
      await scene.event(leader, 'renewed', first.atMs)
      expect(leader.events.filter(({ type }) => type === 'renew-failed')).toEqual([])
      expect(leader.leadership()?.remainingMs(), 'counts from the sending').toBeLessThan(patientDeadlineMs - 250)
    })
  })

  describe('many candidates', () => {
    test(
      'of 20 on one Lease one leads at a time, and each acquisition is one term',
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

  describe.concurrent('somebody with kubectl', () => {
    /** A leader, a standby that watches it, and what is done to their Lease. */
    async function pair(scene: Scene, edit: () => Promise<unknown>) {
      const leader = scene.replica('pod-a', { work: untilAborted })
      await scene.event(leader, 'elected')
      const standby = scene.elector('pod-b')
      await isWatching(scene, leader, standby)
      const fromMs = nowMs()
      await edit()
      return { leader, standby, fromMs, toMs: nowMs() }
    }

    /** The leader has learned of the write at its next renewal, and the standby waited for a whole lease. */
    async function isSucceeded(scene: Scene, { leader, standby, fromMs, toMs }: Awaited<ReturnType<typeof pair>>) {
      const elected = await scene.event(standby, 'elected')
      expect(elected.term).toBe(2)
      expect(elected.atMs - fromMs).toBeGreaterThan(leaseDurationMs)
      expect(elected.atMs - toMs).toBeLessThan(leaseDurationMs + slackMs)
      expect(leader.leadership()?.signal.reason).toMatchObject({ reason: 'superseded' })
      expect(beliefOf(scene, leader).toMs - toMs).toBeLessThan(retryPeriodMs + slackMs)
      expect((await scene.lease()).spec).toMatchObject({ holderIdentity: 'pod-b', leaseTransitions: 2 })
    }

    test('deletes the Lease: the leader stops at its next renewal, and nobody leads before the lease is over', async ({
      scene,
    }) => {
      await isSucceeded(scene, await pair(scene, () => scene.deleteLease()))
    })

    test('deletes the Lease, and a newcomer begins with term 1: terms go on above the highest seen', async ({
      scene,
    }) => {
      const leader = scene.replica('pod-a')
      await scene.event(leader, 'elected')
      await scene.patch({ spec: { leaseTransitions: 41, holderIdentity: '' }, metadata: { annotations: null } })
      const { atMs } = await scene.event(leader, 'lost')
      expect(await scene.event(leader, 'elected', atMs)).toMatchObject({ term: 42 })
      const standby = scene.replica('pod-b')
      await scene.until(() => standby.elector.getLeader() === 'pod-a')
      // Both wait for the lease that is gone; who knows nothing of it does not.
      await scene.deleteLease()
      const newcomer = scene.replica('pod-c')
      scene.mayOverlap = true
      expect(await scene.event(newcomer, 'elected')).toMatchObject({ term: 1 })
      await release(newcomer)
      await scene.until(() => scene.beliefs.length === 4)
      expect(scene.beliefs.map(({ term }) => term)).toEqual([1, 42, 1, 43])
    })

    test('puts a label on it: the leader goes on', async ({ scene }) => {
      const edit = () => scene.patch({ metadata: { labels: { team: 'payments' } } })
      const { leader, standby, toMs } = await pair(scene, edit)
      expect(await scene.event(leader, 'renewed', toMs)).toMatchObject({ term: 1 })
      const { metadata, spec } = await scene.lease()
      expect(metadata.labels).toEqual({ team: 'payments' })
      expect(spec).toMatchObject({ holderIdentity: 'pod-a', leaseTransitions: 1 })
      expect([leader, standby].map(({ elector }) => elector.isLeader())).toEqual([true, false])
    })

    test('writes another holder into it: the leader stops at its next renewal', async ({ scene }) => {
      const two = await pair(scene, () => scene.patch({ spec: { holderIdentity: 'somebody' } }))
      await scene.until(() => two.standby.elector.leader()?.holder === 'somebody')
      await isSucceeded(scene, two)
    })

    test('takes the annotations away: the leader cannot tell the lease for its own, and stops', async ({ scene }) => {
      await isSucceeded(scene, await pair(scene, () => scene.patch({ metadata: { annotations: null } })))
    })

    test('writes another duration into it: the next renewal puts it right', async ({ scene }) => {
      for (const leaseDurationSeconds of [3_600, 2]) {
        const { leader, standby, toMs } = await pair(scene, () => scene.patch({ spec: { leaseDurationSeconds } }))
        expect(await scene.event(leader, 'renewed', toMs)).toMatchObject({ record: { leaseDurationMs } })
        expect((await scene.lease()).spec).toMatchObject({ holderIdentity: 'pod-a', leaseDurationSeconds: 3 })
        expect([leader, standby].map(({ elector }) => elector.isLeader())).toEqual([true, false])
        await standby.elector.stop()
        await release(leader)
      }
    })

    test('takes the holder out, which is no release: the next renewal puts it back', async ({ scene }) => {
      const { leader, standby, toMs } = await pair(scene, () => scene.patch({ spec: { holderIdentity: '' } }))
      expect(await scene.event(leader, 'renewed', toMs)).toMatchObject({ term: 1 })
      expect((await scene.lease()).spec).toMatchObject({ holderIdentity: 'pod-a', leaseTransitions: 1 })
      expect([leader, standby].map(({ elector }) => elector.isLeader())).toEqual([true, false])
      expect(scene.beliefs).toHaveLength(1)
    })

    test('takes holder and annotations out: nothing tells of the leader, who stops at its next renewal', async ({
      scene,
    }) => {
      // Nobody can know better: this is what fencing is for.
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
    test('paused beyond its lease says no at the first question after it, and its successor has a higher term', async ({
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
      // It believed until it was paused at the latest; its successor came a whole lease after it was last heard.
      scene.beliefs.push({ identity: 'child', term: 1, fromMs, toMs: (told('asking')?.atMs ?? NaN) + slackMs })
      standby.abort()
      await scene.until(() => child.messages.some((message) => message.event === 'elected' && message.term === 3))
      child.send('stop')
      expect(await child.ended).toBe(0)
    })

    test('whose right is withdrawn stops by its deadline, says why, and comes back with it', async ({ scene }) => {
      const { via, withdraw, grant } = await scene.account(['get', 'create', 'update', 'watch'])
      const leader = scene.replica('pod-a', { via })
      await scene.event(leader, 'renewed')
      await withdraw()
      const lost = await scene.event(leader, 'lost')
      stoppedAtDeadline(scene, leader)
      const failed = leader.events.flatMap((event) => (event.type === 'renew-failed' ? [event.error] : []))
      expect(failed.length).toBeGreaterThan(0)
      for (const error of failed) expect(error).toMatchObject({ code: 'UNAUTHORIZED', message: /update Lease.*403/ })
      expect(await scene.event(leader, 'error', lost.atMs)).toMatchObject({ error: { code: 'UNAUTHORIZED' } })
      await grant()
      expect(await scene.event(leader, 'elected', lost.atMs)).toMatchObject({ term: 2 })
    })

    test('that may not ask for its rights says nothing of them, and asks once', async ({ scene }) => {
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
      for (const error of codes) expect(error).toMatchObject({ code: 'UNAUTHORIZED', message: /update Lease.*403/ })
    })

    test('whose token is worth nothing any more stops by its deadline, and comes back with another', async ({
      scene,
    }) => {
      const { via, remove, create } = await scene.account(['get', 'create', 'update', 'watch'])
      const leader = scene.replica('pod-a', { via })
      await scene.event(leader, 'renewed')
      await remove()
      // The API server itself trusts a token for ten seconds after it last looked.
      const failed = await scene.event(leader, 'renew-failed')
      expect(failed).toMatchObject({ error: { code: 'UNAUTHORIZED', message: /401/ } })
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

    test('told to come back in a minute (429) tries again within its lease', async ({ scene }) => {
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

    test('told so (503) for longer than its lease steps down, and neither hammers nor waits a minute', async ({
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

  // By itself: what floods this process stalls every other test in it.
  describe('a program', () => {
    test('that has used up its sockets does not hold renewals up', async ({ scene }) => {
      const front = await scene.front()
      front.answer = ({ path }) => (path.startsWith('/slow') ? 'silence' : undefined)
      const client = scene.client(front)
      const leader = scene.replica('pod-a', { client })
      await scene.event(leader, 'elected')
      const ending = new AbortController()
      const { signal } = ending
      setMaxListeners(0, signal)
      scene.onEnd(() => ending.abort())
      // Through the same client, through Node's own agent, and through one that has but one socket.
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

/** At least a retry period apart. */
function expectPaced(times: readonly number[]): void {
  expect(times.length).toBeGreaterThan(1)
  for (const [index, atMs] of times.slice(1).entries()) {
    expect(atMs - (times[index] ?? NaN)).toBeGreaterThan(retryPeriodMs - 100)
  }
}

/** The next such request reaches the API server, and its answer nobody. */
function loseOne(front: Front, method: string): void {
  front.answer = (request) => {
    if (request.method !== method) return undefined
    front.answer = undefined
    return 'reply lost'
  }
}

/** Ends it, and gives the moment at which the lease was given back at the earliest. */
async function release(replica: Replica): Promise<{ atMs: number }> {
  const atMs = nowMs()
  replica.abort()
  await replica.run
  return { atMs }
}

/** From the moment its last renewal was sent, which was a little before its answer came. */
function stoppedAtDeadline(scene: Scene, leader: Replica): void {
  const heldForMs = beliefOf(scene, leader).toMs - lastHeardMs(leader)
  within(heldForMs, deadlineMs - roundTripMs, deadlineMs + slackMs)
}

function beliefOf(scene: Scene, { identity }: Replica) {
  const belief = scene.beliefs.find((one) => one.identity === identity)
  if (!belief) throw new Error(`${identity} never led`)
  return belief
}

/** A standby that shows the newest version at once has been told of it. */
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
