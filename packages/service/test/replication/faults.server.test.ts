import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { askEtcd, base64, etcd } from '../../../../test/servers/etcd.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import {
  activeOf,
  isActive,
  openReplicas,
  takesOver,
  type ClusterOptions,
  type ReplicaProcess,
} from './replica-process.ts'
import { answers, campaign, Keeper, leader, renew, resign, startReplicas, won } from './process-scene.ts'

/** Calls are held for 2 s while no replica is active, and then refused. */
const unanswered = { status: 503, body: { error: 'BACKEND_UNAVAILABLE', retry_after_ms: expect.any(Number) as number } }
const ledBy = (node_id: string, term: number) => ({ status: 200, body: { leader: { node_id, term } } })

describeWith(etcd, 'replicas on etcd', (server) => {
  const start = (options: Partial<ClusterOptions> = {}) => startReplicas({ members: [server().port], ...options })

  test(
    'an active replica sends no stale answers after a pause longer than its lease',
    { timeout: 60_000 },
    async () => {
      const { active, followers } = await start()
      expect(await campaign(active, 'g', 'c')).toMatchObject(won(1))
      await active.pause()
      const next = await activeOf(followers, active.servedTerm)
      expect(await resign(next, 'g', 'c', 1)).toMatchObject({ status: 200 })
      expect(await campaign(next, 'g', 'd')).toMatchObject(won(2))
      const late = [
        renew(active, 'g', 'c', 1),
        campaign(active, 'g', 'e'),
        leader(active, 'g'),
        resign(active, 'g', 'd', 2),
      ] as const
      active.resume()
      const [renewed, lost, shown, resigned] = await Promise.all(late)
      expect(renewed).toMatchObject({ status: 409, body: { error: 'NOT_LEADER' } })
      expect(lost).toMatchObject({ status: 200, body: { is_leader: false } })
      expect(shown).toMatchObject({ status: 200, body: { highest_term: 2 } })
      expect(resigned).toMatchObject({ status: 200 })
      for (const replica of [active, ...followers]) expect(await leader(replica, 'g')).toMatchObject({ status: 200 })
      expect(await campaign(active, 'g', 'e')).toMatchObject(won(3))
    },
  )

  test('a lease lasts as long as promised to its holder across a failover', { timeout: 60_000 }, async () => {
    const { active, followers } = await start()
    expect(await campaign(active, 'g', 'c', { lease_ttl_ms: 20_000 })).toMatchObject(won(1))
    const sentMs = performance.now()
    expect(await renew(active, 'g', 'c', 1, 6_000)).toMatchObject({ status: 200 })
    await active.kill()
    const next = await activeOf(followers, active.servedTerm)
    // The longest duration that was promised in its term, counted from the start of the next active term.
    const { leader: shown } = { ...(await leader(next, 'g'))?.body } as { leader?: { lease_remaining_ms: number } }
    expect(shown?.lease_remaining_ms).toBeGreaterThan(20_000 - (performance.now() - sentMs))
    expect(await campaign(next, 'g', 'd')).toMatchObject({ body: { is_leader: false } })
    expect(await renew(next, 'g', 'c', 1)).toMatchObject({ status: 200 })
  })

  describe('replicas that are killed during a takeover', () => {
    const headKey = (prefix: string) => base64(`${prefix}/service:head`)
    async function headTerm(prefix: string): Promise<number> {
      const { kvs } = await askEtcd<{ kvs: { value: string }[] }>(server(), 'kv/range', { key: headKey(prefix) })
      const text = Buffer.from(kvs[0]?.value ?? '', 'base64').toString()
      return Number(/"term":(\d+)/.exec(text)?.[1])
    }
    /** The delay to etcd, and also the delay back, so that a step takes twice as long. */
    const wayMs = 150

    const steps: Record<string, (successor: ReplicaProcess, prefix: string, term: number) => Promise<void>> = {
      'before it has swapped the head': async () => {},
      'while its swap is on the way': async (successor) => {
        for (const proxy of successor.toEtcd) proxy.set('hold', 'to-server')
        await delay(2 * wayMs)
      },
      'when the head is swapped, and it does not know that': async (_, prefix, term) => {
        await vi.waitUntil(async () => (await headTerm(prefix)) === term, { timeout: 10_000, interval: 2 })
      },
      'while it loads': async (_, prefix, term) => {
        await vi.waitUntil(async () => (await headTerm(prefix)) === term, { timeout: 10_000, interval: 2 })
        await delay(2 * wayMs)
      },
      'when it has just begun to serve': async (successor, _, term) => {
        await vi.waitUntil(() => successor.servedTerm === term, { timeout: 10_000, interval: 1 })
      },
    }

    test.for(Object.entries(steps))(
      'a replica that is killed %s loses no lease and no term',
      { timeout: 90_000 },
      async ([name, until], { expect }) => {
        const prefix = randomUUID()
        const [active, successor] = await openReplicas({ members: [server().port], prefix, size: 2 })
        if (!active || !successor) throw new Error('there are two')
        await active.start()
        await active.logged(isActive)
        await successor.start()
        const groups = Array.from({ length: 5 }, (_, at) => `g${at}`)
        for (const group of groups) expect(await campaign(active, group, 'a')).toMatchObject(won(1))
        expect(await resign(active, 'g4', 'a', 1)).toMatchObject({ status: 200 })
        for (const proxy of successor.toEtcd) proxy.set({ delayMs: wayMs })
        await active.kill()
        const { term = 0 } = await successor.logged(takesOver)
        await until(successor, prefix, term)
        await successor.kill()
        expect(successor.servedTerm, 'the replica was killed at the intended step').toBe(
          name.includes('begun') ? term : 0,
        )
        await active.start()
        await active.logged(isActive, active.log.length)
        for (const group of groups.slice(0, 4))
          expect(await renew(active, group, 'a', 1)).toMatchObject({ status: 200 })
        expect(await campaign(active, 'g4', 'b')).toMatchObject(won(2))
        expect(active.servedTerm).toBeGreaterThan(term)
      },
    )
  })

  describe('followers', () => {
    test(
      'a follower retries on another connection when the active replica disappears without closing the first one',
      { timeout: 60_000 },
      async () => {
        const {
          active,
          followers: [follower],
        } = await start()
        expect(await campaign(follower, 'g', 'a')).toMatchObject(won(1))
        follower.toOthers.get(active)?.freezeExisting()
        const askedMs = performance.now()
        const both = await Promise.all([renew(follower, 'g', 'a', 1), campaign(follower, 'h', 'b')])
        expect(both).toMatchObject([{ status: 200 }, won(1)])
        // The follower waits three seconds for a message, on a clock that ticks once a second.
        expect(performance.now() - askedMs).toBeLessThan(7_000)
      },
    )

    test('a follower that cannot reach the active replica answers with 503 in time', { timeout: 60_000 }, async () => {
      const {
        active,
        followers: [follower],
      } = await start()
      expect(await campaign(follower, 'g', 'a')).toMatchObject(won(1))
      const way = follower.toOthers.get(active)
      way?.refuse()
      way?.reset()
      const askedMs = performance.now()
      expect(await renew(follower, 'g', 'a', 1)).toMatchObject(unanswered)
      expect(performance.now() - askedMs).toBeLessThan(5_000)
      expect(await renew(active, 'g', 'a', 1)).toMatchObject({ status: 200 })
      await way?.accept()
      await answers(follower)
      expect(await renew(follower, 'g', 'a', 1)).toMatchObject({ status: 200 })
    })

    test(
      'a follower with outdated knowledge of the active replica gets no stale answer',
      { timeout: 90_000 },
      async () => {
        const { active, followers } = await start()
        const [stale, other] = followers
        if (!other) throw new Error('there are three')
        expect(await campaign(stale, 'g', 'c')).toMatchObject(won(1))
        for (const proxy of stale.toEtcd) proxy.set('blackhole')
        await active.pause()
        const next = await activeOf([other], active.servedTerm)
        expect(await resign(next, 'g', 'c', 1)).toMatchObject({ status: 200 })
        expect(await campaign(next, 'g', 'd')).toMatchObject(won(2))
        const asked = Promise.all([renew(stale, 'g', 'c', 1), leader(stale, 'g')])
        active.resume()
        // By now, the former active replica knows about it and is itself a follower.
        for (const answer of await asked) {
          if (answer?.status === 503) continue
          expect(answer?.body['leader'] ?? answer?.body['current_leader']).toMatchObject({ node_id: 'd', term: 2 })
        }
        for (const proxy of stale.toEtcd) proxy.set('pass')
        await answers(stale)
        expect(await leader(stale, 'g')).toMatchObject(ledBy('d', 2))
      },
    )

    test.for(['stop', 'kill'] as const)(
      'a follower sends waiting campaigns to the next active replica after a %s of the previous one',
      { timeout: 60_000 },
      async (end, { expect }) => {
        const { active, followers } = await start()
        const [follower] = followers
        expect(await campaign(active, 'g', 'a')).toMatchObject(won(1))
        const waiting = Array.from({ length: 5 }, (_, at) => campaign(follower, 'g', `b${at}`, { wait_ms: 30_000 }))
        await delay(200)
        await active[end]()
        const next = await activeOf(followers, active.servedTerm)
        expect(await resign(next, 'g', 'a', 1)).toMatchObject({ status: 200 })
        const { body } = (await Promise.race(waiting)) ?? {}
        expect(body).toMatchObject(won(2).body)
      },
    )

    test('a follower of another cluster gets no answer, whatever address it uses', { timeout: 60_000 }, async () => {
      const first = await start()
      const second = await start()
      expect(await campaign(first.active, 'g', 'first')).toMatchObject(won(1))
      const [stranger] = second.followers
      await stranger.stop()
      // The address of its active replica now belongs to another cluster.
      const detour = { ...stranger.toOthers.get(second.active), port: first.active.linkPort }
      stranger.toOthers.set(second.active, detour as never)
      await stranger.start()
      expect(await leader(stranger, 'g')).toMatchObject(unanswered)
      expect(await campaign(stranger, 'h', 'x')).toMatchObject(unanswered)
      expect(await leader(first.active, 'h')).toMatchObject({ body: { leader: null } })
    })
  })

  test('clusters with nested prefixes share nothing', { timeout: 60_000 }, async () => {
    const prefix = randomUUID()
    const [upper, lower] = await Promise.all([
      start({ prefix, size: 2 }),
      start({ prefix: `${prefix}/below`, size: 2 }),
    ])
    expect(await campaign(upper.followers[0], 'g', 'upper')).toMatchObject(won(1))
    expect(await campaign(lower.followers[0], 'g', 'lower')).toMatchObject(won(1))
    await upper.active.kill()
    const next = await activeOf(upper.followers, upper.active.servedTerm)
    expect(await leader(next, 'g')).toMatchObject(ledBy('upper', 1))
    expect(await leader(lower.active, 'g')).toMatchObject(ledBy('lower', 1))
    expect(lower.followers[0].servedTerm).toBe(0)
  })

  describe('under load', () => {
    const ttlMs = 6_000
    /** Clients of all running replicas, each with a lease. */
    async function keepers(replicas: readonly ReplicaProcess[], stopping: ReadonlySet<ReplicaProcess>) {
      let turn = 0
      const pick = () => {
        const open = replicas.filter((replica) => replica.isRunning && !stopping.has(replica))
        const picked = open[(turn += 1) % open.length]
        if (!picked) throw new Error('none runs')
        return picked
      }
      const all = Array.from({ length: 16 }, (_, at) => new Keeper(`kept-${at}`, pick))
      await Promise.all(all.map((keeper) => keeper.start({ ttlMs, everyMs: 50 })))
      return all
    }

    test(
      'a clean stop of the active replica loses no lease and refuses calls for less than a second',
      { timeout: 60_000 },
      async () => {
        const { active, followers, replicas } = await start()
        const stopping = new Set<ReplicaProcess>()
        const all = await keepers(replicas, stopping)
        const stoppedMs = performance.now()
        stopping.add(active)
        await active.stop()
        await activeOf(followers, active.servedTerm)
        const tookMs = performance.now() - stoppedMs
        await delay(1_000)
        await Promise.all(all.map((keeper) => keeper.stop()))
        console.log('clean stop:', { tookMs, refusedMs: all.flatMap(({ refusedMs }) => refusedMs) })
        expect(all.flatMap(({ lost }) => lost)).toEqual([])
        expect(Math.max(0, ...all.flatMap(({ refusedMs }) => refusedMs))).toBeLessThan(1_000)
        expect(Math.min(...all.map(({ renewals }) => renewals))).toBeGreaterThan(5)
      },
    )

    test('a rolling restart of all replicas loses no lease', { timeout: 90_000 }, async () => {
      const { replicas } = await start()
      const stopping = new Set<ReplicaProcess>()
      const all = await keepers(replicas, stopping)
      let changes = 0
      for (const replica of replicas) {
        const before = await activeOf(replicas)
        stopping.add(replica)
        await replica.stop()
        if (before === replica) changes += 1
        await replica.start()
        await answers(replica)
        stopping.delete(replica)
      }
      await Promise.all(all.map((keeper) => keeper.stop()))
      console.log('rolling restart:', { changes, refusedMs: all.flatMap(({ refusedMs }) => refusedMs) })
      expect(all.flatMap(({ lost }) => lost)).toEqual([])
      expect(changes).toBeGreaterThan(0)
      expect(Math.max(0, ...all.flatMap(({ refusedMs }) => refusedMs))).toBeLessThan(2_000)
    })
  })
})
