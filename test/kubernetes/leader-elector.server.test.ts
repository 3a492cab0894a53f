import { getEventListeners } from 'node:events'
import { describe, expect } from 'vitest'
import { LeaderElector } from '../../packages/tenure/src/api/leader-elector.ts'
import type { LeaderElectorOptions } from '../../packages/tenure/src/api/leader-elector-options.ts'
import { kubernetesStore } from '../../packages/tenure/src/stores/kubernetes/index.ts'
import { startClientGo } from '../servers/client-go.ts'
import { programs } from '../servers/programs.ts'
import { describeWithCluster } from '../servers/suite.ts'
import { startChild } from './elector-process.ts'
import {
  callbackCallsOf,
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

const pollingRights = ['get', 'create', 'update']
const defaults = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000 }

describeWithCluster(
  'LeaderElector on a real API server',
  (cluster) => {
    const test = sceneTest(cluster)

    describe.concurrent('Requirement: Lease-Based Leader Election', () => {
      test('Scenario: Single replica becomes leader', async ({ scene }) => {
        const replica = scene.replica('pod-a')
        await scene.until(() => replica.elector.isLeader())
        expect((await scene.lease()).spec).toMatchObject({ holderIdentity: 'pod-a', leaseTransitions: 1 })
      })

      test('Scenario: Only one leader among multiple replicas', async ({ scene }) => {
        const replicas = ['pod-a', 'pod-b', 'pod-c', 'pod-d'].map((identity) => scene.replica(identity))
        for (const term of [1, 2, 3, 4]) {
          const leader = await leaderOf(scene, replicas)
          const { spec } = await scene.lease()
          expect(spec).toMatchObject({ holderIdentity: leader.identity, leaseTransitions: term })
          await scene.until(() => replicas.every(({ elector }) => elector.getLeader() === leader.identity))
          leader.abort()
          await leader.run
          replicas.splice(replicas.indexOf(leader), 1)
        }
        // The test fixture checks for overlapping beliefs when it ends.
        expect(scene.beliefs.map(({ term }) => term)).toEqual([1, 2, 3, 4])
      })

      test('the elected leader renews the Lease periodically', async ({ scene }) => {
        const replica = scene.replica('pod-a')
        const first = await scene.event(replica, 'renewed')
        const before = await scene.lease()
        const second = await scene.event(replica, 'renewed', first.atMs)
        expect(second.atMs - first.atMs).toBeLessThan(timings.retryPeriodMs + slackMs)
        const after = await scene.lease()
        expect(Date.parse(after.spec.renewTime ?? '')).toBeGreaterThan(Date.parse(before.spec.renewTime ?? ''))
        expect({ ...after.spec, renewTime: '' }).toEqual({ ...before.spec, renewTime: '' })
      })
    })

    describe.concurrent('Requirement: Configurable Timing Parameters', () => {
      /** Measures the timings by the Lease, by a leader that is cut off, and by its successor. */
      async function measure(scene: Scene, given: Partial<typeof timings>) {
        const proxy = await scene.proxy()
        const leader = scene.replica('pod-a', { via: proxy, ...given })
        await scene.event(leader, 'elected')
        const standby = scene.replica('pod-b', given)
        await scene.until(() => standby.elector.getLeader() === 'pod-a')
        proxy.refuse()
        proxy.reset()
        await scene.event(standby, 'elected', nowMs(), 25_000)
        const lastMs = lastConfirmedMs(leader)
        const written = (await scene.lease()).spec.leaseDurationSeconds
        const [believed, followed] = scene.beliefs
        const failures = leader.events.flatMap((event) => (event.type === 'renew-failed' ? [event.atMs] : []))
        return {
          written,
          gaveUpAfterMs: (believed?.toMs ?? NaN) - lastMs,
          takenAfterMs: (followed?.fromMs ?? NaN) - lastMs,
          triedEveryMs: failures.slice(1).map((atMs, index) => atMs - (failures[index] ?? NaN)),
        }
      }

      async function show(scene: Scene, given: Partial<typeof timings>, expected: typeof timings) {
        const measured = await measure(scene, given)
        expect(measured.written).toBe(expected.leaseDurationMs / 1000)
        // The deadline counts from when the last renewal was sent, slightly before its answer arrived.
        const deadlineMs = expected.retryPeriodMs + expected.renewDeadlineMs
        within(measured.gaveUpAfterMs, deadlineMs - slackMs - roundTripMs, deadlineMs + slackMs)
        within(measured.takenAfterMs, expected.leaseDurationMs - roundTripMs, expected.leaseDurationMs + slackMs)
        expect(measured.triedEveryMs.length).toBeGreaterThan(0)
        for (const ms of measured.triedEveryMs)
          within(ms, expected.retryPeriodMs - 100, expected.retryPeriodMs + slackMs)
      }

      test('Scenario: Default timing parameters applied', { timeout: 60_000 }, async ({ scene }) => {
        const none = { leaseDurationMs: undefined, renewDeadlineMs: undefined, retryPeriodMs: undefined }
        await show(scene, none as never, defaults)
      })

      test('Scenario: Custom timing parameters override defaults', async ({ scene }) => {
        const custom = { leaseDurationMs: 4_000, renewDeadlineMs: 3_000, retryPeriodMs: 500 }
        await show(scene, custom, custom)
      })
    })

    describe.concurrent('Requirement: Leader Election Callbacks', () => {
      test('Scenario: OnStartedLeading invoked on leadership acquisition', async ({ scene }) => {
        let given: AbortSignal | undefined
        const replica = scene.replica('pod-a', { work: (signal) => ((given = signal), untilAborted(signal)) })
        await scene.until(() => replica.callbackCalls.includes('started 1'))
        const first = await scene.event(replica, 'renewed')
        await scene.event(replica, 'renewed', first.atMs)
        expect(given?.aborted).toBe(false)
        replica.abort()
        expect(given?.aborted).toBe(true)
        await replica.run
        expect(callbackCallsOf(replica)).toEqual(['leader pod-a', 'started 1', 'work ends', 'stopped'])
      })

      test('Scenario: OnStoppedLeading invoked on leadership loss', async ({ scene }) => {
        const proxy = await scene.proxy()
        const replica = scene.replica('pod-a', { via: proxy, work: untilAborted })
        await scene.event(replica, 'renewed')
        proxy.set('blackhole')
        await scene.until(() => replica.callbackCalls.includes('stopped'))
        const deadlineMs = timings.retryPeriodMs + timings.renewDeadlineMs
        within(nowMs() - lastConfirmedMs(replica), deadlineMs - roundTripMs, deadlineMs + slackMs)
        expect(callbackCallsOf(replica)).toEqual(['leader pod-a', 'started 1', 'work ends', 'stopped'])
        expect(replica.leadership()?.signal.reason).toMatchObject({ code: 'LEADERSHIP_LOST', reason: 'expired' })
      })

      test('Scenario: OnNewLeader invoked for all replicas', async ({ scene }) => {
        const replicas = ['pod-a', 'pod-b', 'pod-c'].map((identity) => scene.replica(identity))
        const first = await leaderOf(scene, replicas)
        const leaders = (replica: Replica) => callbackCallsOf(replica).filter((text) => text.startsWith('leader'))
        const all = [`leader ${first.identity}`]
        await scene.until(() => replicas.every((replica) => leaders(replica).length === 1))
        for (const replica of replicas) expect(leaders(replica)).toEqual(all)
        first.abort()
        const rest = replicas.filter((replica) => replica !== first)
        const second = await leaderOf(scene, rest)
        await scene.until(() => rest.every((replica) => leaders(replica).length === 2))
        for (const replica of rest) expect(leaders(replica)).toEqual([...all, `leader ${second.identity}`])
      })

      test('OnNewLeader announces the holder of a Lease that client-go made, whose term is 0', async ({ scene }) => {
        const { url, caFile, adminToken, namespace } = scene.cluster
        const peer = startClientGo({
          server: url,
          caFile,
          token: adminToken,
          namespace,
          lease: scene.leaseName,
          identity: 'go',
          ...timings,
        })
        scene.onEnd(() => peer.stop())
        expect(await peer.first('started')).toMatchObject({ transitions: 0 })
        const replica = scene.replica('pod-a')
        await scene.until(() => replica.callbackCalls.length > 0)
        expect(replica.callbackCalls).toEqual(['leader go'])
        expect(replica.elector.getLeader()).toBe('go')
        await peer.kill('SIGTERM')
        await scene.until(() => replica.elector.isLeader())
        expect(callbackCallsOf(replica)).toEqual(['leader go', 'leader pod-a', 'started 1', 'work ends'])
      })

      test('OnStoppedLeading is not called for a replica that never led', async ({ scene }) => {
        const leader = scene.replica('pod-a')
        await scene.event(leader, 'elected')
        const standby = scene.replica('pod-b')
        await scene.until(() => standby.elector.getLeader() === 'pod-a')
        standby.abort()
        await standby.run
        expect(standby.callbackCalls).toEqual(['leader pod-a'])
      })
    })

    describe.concurrent('Requirement: Thread-Safe Leadership Queries', () => {
      test('Scenario: IsLeader returns true for the active leader', async ({ scene }) => {
        const replica = scene.replica('pod-a')
        expect(replica.elector.isLeader(), 'not before it holds the Lease').toBe(false)
        await scene.event(replica, 'elected')
        expect(replica.elector.isLeader()).toBe(true)
        await scene.event(replica, 'renewed')
        expect(replica.elector.isLeader()).toBe(true)
      })

      test('Scenario: IsLeader returns false for non-leaders', async ({ scene }) => {
        const leader = scene.replica('pod-a')
        await scene.event(leader, 'elected')
        const standby = scene.replica('pod-b')
        const { atMs } = await scene.event(standby, 'new-leader')
        await scene.event(leader, 'renewed', atMs)
        expect([leader, standby].map(({ elector }) => elector.isLeader())).toEqual([true, false])
      })

      test('Scenario: GetLeader returns the current leader identity', async ({ scene }) => {
        const replicas = ['pod-a', 'pod-b'].map((identity) => scene.replica(identity))
        const { identity } = await leaderOf(scene, replicas)
        await scene.until(() => replicas.every(({ elector }) => elector.getLeader() === identity))
      })

      test('GetLeader returns an empty string when nobody leads: before the first leader, after a release, and after a loss', async ({
        scene,
      }) => {
        const proxy = await scene.proxy()
        const replica = scene.replica('pod-a', { via: proxy })
        expect(replica.elector.getLeader()).toBe('')
        await scene.event(replica, 'elected')
        expect(replica.elector.getLeader()).toBe('pod-a')
        proxy.set('blackhole')
        await scene.event(replica, 'lost')
        await scene.until(() => replica.elector.getLeader() === '')
        proxy.set('pass')
        await scene.until(() => replica.elector.isLeader())
        replica.abort()
        await replica.run
        expect(replica.elector.getLeader()).toBe('')
      })
    })

    test('GetLeader and OnNewLeader report that nobody leads once the observed lease has expired', async ({
      scene,
    }) => {
      const leader = scene.replica('pod-a', { releaseOnCancel: false })
      await scene.event(leader, 'elected')
      const { via } = await scene.account(['get', 'create', 'watch'])
      const bystander = scene.replica('pod-b', { via })
      await scene.until(() => bystander.elector.getLeader() === 'pod-a')
      await scene.event(leader, 'renewed', nowMs())
      leader.abort()
      await leader.run
      await scene.until(() => bystander.elector.getLeader() === '')
      within(
        nowMs() - lastConfirmedMs(leader),
        timings.leaseDurationMs - roundTripMs,
        timings.leaseDurationMs + slackMs,
      )
      expect((await scene.lease()).spec.holderIdentity, 'although its name is still there').toBe('pod-a')
      await scene.until(() => bystander.callbackCalls.length > 1)
      const next = scene.replica('pod-c')
      await scene.event(next, 'elected')
      await scene.until(() => bystander.callbackCalls.length > 2)
      expect(bystander.callbackCalls).toEqual(['leader pod-a', 'leader ', 'leader pod-c'])
    })

    describe.concurrent('Requirement: Graceful Release on Context Cancellation', () => {
      test('Scenario: Leader releases Lease on shutdown', async ({ scene }) => {
        const leader = scene.replica('pod-a', defaults)
        await scene.event(leader, 'elected')
        const standby = scene.replica('pod-b', defaults)
        await scene.until(() => standby.elector.getLeader() === 'pod-a')
        const beganMs = nowMs()
        leader.abort()
        const { atMs, term } = await scene.event(standby, 'elected')
        expect(term).toBe(2)
        expect(atMs - beganMs, 'triggered by an event, not by a poll or by expiry').toBeLessThan(
          defaults.retryPeriodMs / 2,
        )
        await leader.run
        expect(leader.elector.isLeader()).toBe(false)
      })

      test('work ends before the Lease is released', async ({ scene }) => {
        let settle = (): void => undefined
        const work = () => new Promise<void>((resolve) => (settle = resolve))
        const leader = scene.replica('pod-a', { work, drainTimeoutMs: 20_000 })
        await scene.event(leader, 'elected')
        const standby = scene.replica('pod-b')
        await scene.until(() => standby.elector.getLeader() === 'pod-a')
        leader.abort()
        expect(leader.elector.isLeader()).toBe(false)
        // Wait for two renewals, so that the lease would have expired by now without them.
        const first = await scene.event(leader, 'renewed', nowMs())
        const { spec } = await scene.lease()
        expect(spec).toMatchObject({ holderIdentity: 'pod-a', leaseTransitions: 1 })
        await scene.until(() => nowMs() - first.atMs > timings.leaseDurationMs)
        expect((await scene.lease()).spec).toMatchObject({ holderIdentity: 'pod-a', leaseTransitions: 1 })
        expect([leader.hasReturned, standby.elector.isLeader()]).toEqual([false, false])
        settle()
        await leader.run
        expect(leader.callbackCalls).toEqual(['leader pod-a', 'started 1', 'work ends', 'stopped'])
        await scene.until(() => standby.elector.isLeader(), timings.leaseDurationMs / 2)
      })

      test('a released Lease has no holder and keeps its term', async ({ scene }) => {
        const replica = scene.replica('pod-a')
        await scene.event(replica, 'elected')
        replica.abort()
        await replica.run
        const { spec } = await scene.lease()
        expect(spec.holderIdentity ?? '').toBe('')
        expect(spec.leaseTransitions).toBe(1)
      })

      test('the Lease expires on its own when releaseOnCancel is false', async ({ scene }) => {
        const leader = scene.replica('pod-a', { releaseOnCancel: false })
        await scene.event(leader, 'elected')
        const standby = scene.replica('pod-b')
        await scene.until(() => standby.elector.getLeader() === 'pod-a')
        leader.abort()
        await leader.run
        expect((await scene.lease()).spec.holderIdentity).toBe('pod-a')
        const takenAfterMs = (await scene.event(standby, 'elected')).atMs - lastConfirmedMs(leader)
        within(takenAfterMs, timings.leaseDurationMs - roundTripMs, timings.leaseDurationMs + slackMs)
      })

      test('the Lease is not released while work ignores its signal', async ({ scene }) => {
        const leader = scene.replica('pod-a', { work: () => new Promise(() => undefined), drainTimeoutMs: 300 })
        await scene.event(leader, 'elected')
        leader.abort()
        await leader.run
        expect((await scene.lease()).spec.holderIdentity).toBe('pod-a')
        expect(leader.events.at(-2)).toMatchObject({ type: 'error', error: { code: 'WORK_UNSETTLED' } })
      })
    })

    describe.concurrent('Requirement: Configuration Validation', () => {
      const callbacks = { onStartedLeading: () => undefined }
      const namespace = 'default'
      const fields = { leaseName: 'my-app', leaseNamespace: namespace, identity: 'pod-a', callbacks }
      const make = (options: unknown) => () => new LeaderElector(options as LeaderElectorOptions)

      for (const [scenario, field] of [
        ['Scenario: Missing Identity rejected', 'identity'],
        ['Scenario: Missing LeaseName rejected', 'leaseName'],
        ['Scenario: Missing LeaseNamespace rejected', 'leaseNamespace'],
      ] as const) {
        test(scenario, ({ scene }) => {
          const client = scene.client()
          const store = kubernetesStore({ client, namespace })
          for (const place of [{ client }, { store }]) {
            expect(make({ ...place, ...fields })).not.toThrow()
            for (const missing of ['', undefined, null]) {
              const construct = make({ ...place, ...fields, [field]: missing })
              expect(construct).toThrow(TypeError)
              expect(construct).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
              expect(construct).toThrow(new RegExp(`Option "${field}" is`))
            }
          }
        })
      }

      test('LeaderElector rejects a store for another namespace', ({ scene }) => {
        const store = kubernetesStore({ client: scene.client(), namespace: 'kube-system' })
        expect(make({ store, ...fields })).toThrow(/Option "leaseNamespace" is "default".*"kube-system"/)
      })

      test('LeaderElector rejects both a client and a store together, and neither of them', ({ scene }) => {
        const client = scene.client()
        expect(make(fields)).toThrow(/Option "client" is/)
        expect(make({ client, store: kubernetesStore({ client }), ...fields })).toThrow(/Option "store" is/)
      })

      test('LeaderElector rejects an invalid Lease name and accepts a valid one', ({ scene }) => {
        const client = scene.client()
        for (const leaseName of ['My-App', 'a/b', 'a_b', '-a', 'a-', '.a', 'a..b', 'x'.repeat(254), 'ä', 'a b', '..']) {
          expect(make({ client, ...fields, leaseName }), leaseName).toThrow(/Option "leaseName" is/)
        }
        for (const leaseName of ['a', '0', 'my-app.example.org', 'x'.repeat(63), `${'x'.repeat(63)}.y`]) {
          expect(make({ client, ...fields, leaseName }), leaseName).not.toThrow()
        }
        for (const leaseNamespace of ['Default', 'a.b', 'a/b', 'x'.repeat(64)]) {
          expect(make({ client, ...fields, leaseNamespace }), leaseNamespace).toThrow(/Option "leaseNamespace" is/)
        }
      })

      test('LeaderElector rejects timings that allow two leaders: a lease of 3 s, a deadline of 2.9 s, retries of 2.4 s', ({
        scene,
      }) => {
        const unsafe = { leaseDurationMs: 3_000, renewDeadlineMs: 2_900, retryPeriodMs: 2_400 }
        expect(make({ client: scene.client(), ...fields, ...unsafe })).toThrow(
          /"renewDeadlineMs" is 2900.*two processes could lead/,
        )
      })
    })

    describe.concurrent('Requirement: Automatic Failover', () => {
      test('Scenario: Standby replica acquires Lease after leader failure', async ({ scene }) => {
        const proxy = await scene.proxy()
        const leader = scene.replica('pod-a', { via: proxy })
        await scene.event(leader, 'elected')
        const standbys = ['pod-b', 'pod-c'].map((identity) => scene.replica(identity))
        await scene.event(leader, 'renewed')
        proxy.set('blackhole')
        const next = await leaderOf(scene, standbys)
        const elected = await scene.event(next, 'elected')
        expect(elected.term).toBe(2)
        const { leaseDurationMs, retryPeriodMs } = timings
        within(elected.atMs - lastConfirmedMs(leader), leaseDurationMs - roundTripMs, leaseDurationMs + retryPeriodMs)
        expect(leader.elector.isLeader()).toBe(false)
      })

      test('a standby acquires the Lease after a leader failure even when it may not watch and has to poll', async ({
        scene,
      }) => {
        const proxy = await scene.proxy()
        const { via } = await scene.account(pollingRights)
        const leader = scene.replica('pod-a', { via: { ...via, port: proxy.port } })
        await scene.event(leader, 'elected')
        const standby = scene.replica('pod-b', { via })
        await scene.until(() => standby.elector.getLeader() === 'pod-a')
        await scene.event(leader, 'renewed')
        proxy.set('blackhole')
        const takenAfterMs = (await scene.event(standby, 'elected')).atMs - lastConfirmedMs(leader)
        // A poll after half to one and a half periods sees the last renewal, and the next try follows after the same
        // delay.
        const { leaseDurationMs, retryPeriodMs } = timings
        within(takenAfterMs, leaseDurationMs - roundTripMs, leaseDurationMs + 3 * retryPeriodMs + slackMs)
      })

      test('Scenario: Standby replicas continuously attempt acquisition', async ({ scene }) => {
        const leader = scene.replica('pod-a')
        await scene.event(leader, 'elected')
        const { via } = await scene.account(pollingRights)
        const front = await scene.front()
        const standby = scene.replica('pod-b', { via: { ...via, port: front.port } })
        const polls = () => front.requests.filter(({ isWatch, path }) => !isWatch && path.includes('/leases/'))
        const asked = () => polls().map(({ atMs }) => atMs)
        await scene.until(() => asked().length > 24)
        expect(standby.elector.getLeader()).toBe('pod-a')
        // The first two are its first try and the refused watch.
        const times = asked().slice(2)
        const gaps = times.slice(1).map((atMs, index) => atMs - (times[index] ?? NaN))
        // The retry period plus or minus half of it, so that a fleet does not stampede. A test in virtual time checks
        // each gap. Here, a busy machine may delay a few of them.
        const median = gaps.toSorted((one, other) => one - other)[gaps.length >> 1] ?? NaN
        within(median, 0.7 * timings.retryPeriodMs, 1.3 * timings.retryPeriodMs)
      })

      test('a standby that may watch sees every renewal, and campaigns when none arrives', async ({ scene }) => {
        const leader = scene.replica('pod-a', { releaseOnCancel: false })
        await scene.event(leader, 'elected')
        const front = await scene.front()
        const standby = scene.replica('pod-b', { via: front })
        await scene.until(() => front.requests.some(({ isWatch }) => isWatch))
        await scene.event(leader, 'renewed', nowMs())
        leader.abort()
        const takenAfterMs = (await scene.event(standby, 'elected')).atMs - lastConfirmedMs(leader)
        within(takenAfterMs, timings.leaseDurationMs - roundTripMs, timings.leaseDurationMs + slackMs)
      })

      test('a leader that lost its lease campaigns again, and its next term is higher', async ({ scene }) => {
        const proxy = await scene.proxy()
        const replica = scene.replica('pod-a', { via: proxy })
        await scene.event(replica, 'elected')
        proxy.set('blackhole')
        const { atMs } = await scene.event(replica, 'lost')
        proxy.set('pass')
        expect(await scene.event(replica, 'elected', atMs)).toMatchObject({ term: 2 })
        await scene.until(() => replica.callbackCalls.at(-1) === 'work ends')
        const pairs = replica.callbackCalls.filter((text) => /^(started|stopped)/.test(text))
        expect(pairs).toEqual(['started 1', 'stopped', 'started 2'])
      })

      test('run({ once: true }) campaigns until it has led, and returns after the first loss', async ({ scene }) => {
        const other = scene.replica('pod-b')
        await scene.event(other, 'elected')
        const proxy = await scene.proxy()
        const replica = scene.replica('pod-a', { via: proxy, once: true })
        await scene.until(() => replica.elector.getLeader() === 'pod-b')
        other.abort()
        await scene.event(replica, 'elected')
        expect(replica.hasReturned).toBe(false)
        proxy.set('blackhole')
        await replica.run
        expect(callbackCallsOf(replica)).toEqual(['leader pod-b', 'leader pod-a', 'started 2', 'work ends', 'stopped'])
        expect(getEventListeners(replica.signal, 'abort')).toEqual([])
      })
    })

    describe.concurrent('healthCheck', () => {
      test('a standby is healthy, and a leader is healthy before, during, and after its term', async ({ scene }) => {
        const leader = scene.replica('pod-a')
        const message = 'This replica does not lead.'
        expect(leader.elector.healthCheck()).toEqual({ healthy: true, message })
        await scene.until(() => leader.callbackCalls.includes('started 1'))
        const standby = scene.replica('pod-b')
        await scene.until(() => standby.elector.getLeader() === 'pod-a')
        expect(standby.elector.healthCheck()).toEqual({ healthy: true, message })
        expect(leader.elector.healthCheck()).toMatchObject({ healthy: true, message: expect.stringMatching(/leads/) })
        await scene.event(leader, 'renewed')
        expect(leader.elector.healthCheck()).toMatchObject({ healthy: true, message: expect.stringMatching(/leads/) })
        leader.abort()
        await leader.run
        expect(leader.elector.healthCheck()).toEqual({ healthy: true, message })
      })

      test('a replica whose work continues after its lease has expired is unhealthy once the tolerance has passed', async ({
        scene,
      }) => {
        let settle = (): void => undefined
        const work = () => new Promise<void>((resolve) => (settle = resolve))
        const proxy = await scene.proxy()
        const replica = scene.replica('pod-a', { via: proxy, work })
        const { elector } = replica
        await scene.event(replica, 'renewed')
        proxy.set('blackhole')
        await scene.until(() => !elector.isLeader())
        const atMs = lastConfirmedMs(replica)
        expect(elector.healthCheck(), 'work may wind down until others may lead').toMatchObject({ healthy: true })
        await scene.until(() => !elector.healthCheck().healthy)
        within(nowMs() - atMs, timings.leaseDurationMs * 0.9 - roundTripMs, timings.leaseDurationMs + slackMs)
        expect(elector.healthCheck().message).toMatch(/The lease expired \d+ ms ago/)
        expect(elector.healthCheck({ toleranceMs: 500 }).healthy).toBe(true)
        await scene.until(() => !elector.healthCheck({ toleranceMs: 500 }).healthy)
        within(
          nowMs() - atMs,
          timings.leaseDurationMs * 0.9 + 500 - roundTripMs,
          timings.leaseDurationMs + 500 + slackMs,
        )
        settle()
        await scene.until(() => replica.callbackCalls.includes('stopped'))
        expect(elector.healthCheck().healthy, 'it lost its lease and has wound down').toBe(true)
      })
    })

    describe.concurrent('recordEvents', () => {
      test('LeaderElector records in Kubernetes Events who became leader and who stopped leading', async ({
        scene,
      }) => {
        for (const identity of ['pod-a', 'pod-b']) {
          const replica = scene.replica(identity, { recordEvents: true })
          await scene.event(replica, 'elected')
          replica.abort()
          await replica.run
        }
        const written = await scene.kubernetesEvents()
        expect(written.map(({ message }) => message)).toEqual([
          'pod-a became leader',
          'pod-a stopped leading',
          'pod-b became leader',
          'pod-b stopped leading',
        ])
        for (const { involvedObject, reason, type } of written) {
          expect({ reason, type }).toEqual({ reason: 'LeaderElection', type: 'Normal' })
          const { apiVersion, kind, name } = involvedObject
          expect([apiVersion, kind, name]).toEqual(['coordination.k8s.io/v1', 'Lease', scene.leaseName])
        }
      })

      test('LeaderElector writes no Kubernetes Events by default', async ({ scene }) => {
        const replica = scene.replica('pod-a')
        await scene.event(replica, 'elected')
        replica.abort()
        await replica.run
        expect(await scene.kubernetesEvents()).toEqual([])
      })

      test('a refused Event is reported and does not affect leadership', async ({ scene }) => {
        const { via } = await scene.account([...pollingRights, 'watch'])
        const replica = scene.replica('pod-a', { via, recordEvents: true })
        const { error } = await scene.event(replica, 'error')
        expect(error).toMatchObject({ code: 'UNAUTHORIZED', message: expect.stringMatching(/create an Event.*403/) })
        await scene.event(replica, 'renewed')
        expect(replica.elector.isLeader()).toBe(true)
        replica.abort()
        await replica.run
        expect(callbackCallsOf(replica)).toEqual(['leader pod-a', 'started 1', 'work ends', 'stopped'])
        expect((await scene.lease()).spec.holderIdentity ?? '').toBe('')
        expect(await scene.kubernetesEvents()).toEqual([])
      })

      test('an observer that fails while a refused Event is reported does not affect leadership', async ({ scene }) => {
        const { via } = await scene.account([...pollingRights, 'watch'])
        const broken = new Error('the observer is broken')
        for (const onEvent of [() => failWith(broken), () => Promise.reject(broken)]) {
          const replica = scene.replica('pod-a', { via, recordEvents: true, onEvent })
          await scene.event(replica, 'renewed')
          replica.abort()
          await replica.run
          const refused = replica.events.filter(({ type }) => type === 'error')
          expect(refused).toHaveLength(2)
          for (const event of refused) expect(event).toMatchObject({ error: { code: 'UNAUTHORIZED' } })
        }
      })
    })

    describe.concurrent('run', () => {
      test('an error thrown by a callback is printed to standard error when there is no observer', async ({
        scene,
      }) => {
        const child = startChild(scene, 'pod-a', { style: 'LeaderElector', brokenCallback: true })
        await scene.until(() => child.messages.some(({ event }) => event === 'started'))
        child.kill('SIGTERM')
        expect(await child.ended).toBe(0)
        expect(child.errors()).toMatch(/^tenure: The callback onNewLeader of ".*" failed: /m)
      })

      test('a second run() is rejected and does not affect the first', async ({ scene }) => {
        const leader = scene.replica('pod-a')
        await scene.event(leader, 'elected')
        const front = await scene.front()
        const standby = scene.replica('pod-b', { via: front })
        const watches = () => front.requests.filter(({ isWatch }) => isWatch).length
        await scene.until(() => watches() === 1)
        await expect(standby.elector.run()).rejects.toMatchObject({ code: 'ALREADY_STARTED' })
        // Wait for longer than it would take to open the watch again.
        const { atMs } = await scene.event(leader, 'renewed', nowMs())
        await scene.event(leader, 'renewed', atMs)
        expect(watches(), 'the watch of the first run was not ended').toBe(1)
      })

      test.for([{ recordEvents: false }, { recordEvents: true }])(
        'missing rights are printed to standard error when there is no observer (recordEvents: $recordEvents)',
        async ({ recordEvents }, { scene }) => {
          const front = await scene.front()
          const via = { port: front.port, token: () => scene.cluster.tokenOf('stranger') }
          const child = startChild(scene, 'pod-a', { style: 'LeaderElector', recordEvents, via })
          const tries = () => front.requests.filter(({ path }) => path.includes('/leases/')).length
          await scene.until(() => child.errors().includes('MISSING_RIGHT') && tries() > 5)
          child.kill('SIGTERM')
          expect(await child.ended).toBe(0)
          const lines = child
            .errors()
            .split('\n')
            .filter((line) => line.startsWith('tenure: '))
          expect(lines).toHaveLength(2)
          expect(lines[0]).toMatch(/^tenure: .*Cannot get Lease .* \(403\).* \[UNAUTHORIZED\]$/)
          expect(lines[1]).toMatch(
            /"stranger" may not get, create, update or watch .*--user=stranger.* \[MISSING_RIGHT\]$/,
          )
        },
      )
    })
  },
  { needs: [programs.clientGo] },
)

/** Resolves with the replica that leads. */
function leaderOf(scene: Scene, replicas: readonly Replica[]): Promise<Replica> {
  return scene.until(() => replicas.find(({ elector }) => elector.isLeader()))
}

function failWith(error: Error): never {
  throw error
}
