import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { contradictions } from '../../packages/service/test/replication/beliefs.ts'
import { activeOf, type ReplicaProcess } from '../../packages/service/test/replication/replica-process.ts'
import { unexplained } from '../../packages/service/test/linearizable.ts'
import { Random } from '../../packages/testing/src/simulation/random.ts'
import { allAnswer, Clients, openScene, type ServiceClusterSetup } from './service-cluster.ts'
import type { Mode } from '../servers/proxy.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'

/** Two leases of the active replica, plus slack for a busy machine. */
const healedWithinMs = 10_000

/** The faults of one replica, one member of etcd, or one network. Each resolves when the fault has ended. */
function singleFaults({ etcd, replicas }: ServiceClusterSetup): Record<string, (random: Random) => Promise<void>> {
  const active = () => activeOf(replicas)
  const follower = async (random: Random) => {
    const leads = await active()
    return random.pick(replicas.filter((replica) => replica !== leads))
  }
  const killed = async (replica: ReplicaProcess, random: Random) => {
    await replica.kill()
    await delay(random.between(0, 1_500))
    await replica.start()
  }
  const paused = async (replica: ReplicaProcess, ms: number) => {
    await replica.pause()
    await delay(ms)
    replica.resume()
  }
  const withoutEtcd = async (replica: ReplicaProcess, mode: Mode, ms: number) => {
    for (const proxy of replica.toEtcd) proxy.set(mode)
    await delay(ms)
    for (const proxy of replica.toEtcd) proxy.set('pass')
  }
  return {
    'the active replica is killed': async (random) => killed(await active(), random),
    'a follower is killed': async (random) => killed(await follower(random), random),
    'the active replica is paused past its lease': async (random) =>
      paused(await active(), random.between(3_500, 6_000)),
    'a replica is paused': async (random) => paused(random.pick(replicas), random.magnitude(50, 3_000)),
    'the active replica is stopped and started': async () => {
      const leads = await active()
      await leads.stop()
      await leads.start()
    },
    'a member of etcd is killed': async (random) => {
      const member = random.chance(0.5) ? await etcd.leader() : random.pick(etcd.members)
      await member.restart('SIGKILL', { downForMs: random.between(0, 2_000) })
    },
    'the leader of etcd is paused': async (random) => {
      const member = await etcd.leader()
      member.pause()
      await delay(random.between(500, 3_000))
      member.resume()
    },
    'the active replica is cut off from etcd': async (random) =>
      withoutEtcd(await active(), 'blackhole', random.between(2_000, 5_000)),
    'messages between the active replica and etcd are late': async (random) =>
      withoutEtcd(await active(), 'hold', random.between(500, 5_000)),
    'a follower is cut off from etcd': async (random) =>
      withoutEtcd(await follower(random), 'blackhole', random.between(500, 5_000)),
    'a follower is cut off from the active replica': async (random) => {
      const one = await follower(random)
      const way = one.toOthers.get(await active())
      way?.set('blackhole')
      await delay(random.between(500, 4_000))
      way?.set('pass')
    },
    'connections between replicas are reset or silently lost': async (random) => {
      for (const replica of replicas) {
        for (const way of replica.toOthers.values()) {
          if (random.chance(0.5)) way.reset()
          else way.freezeExisting()
        }
      }
    },
  }
}

const seconds = Number(process.env['TENURE_CHAOS_SECONDS'] ?? 60)

describeWithPrograms([programs.etcd], 'three replicas of the service on three members of etcd', () => {
  const name = 'three replicas act as one linearizable service, whichever replica a client asks and whatever fails'
  test(name, { timeout: 180_000 + 3_000 * seconds }, async () => {
    const seed = Number(process.env['TENURE_CHAOS_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
    const how = `seed ${seed}`
    const random = new Random(seed)
    const scene = await openScene()
    const { etcd, replicas } = scene
    const clients = new Clients(replicas, random.fork())
    const faults = singleFaults(scene)
    const healedMs = new Map<string, number[]>()
    const startedMs = performance.now()
    // Each fault occurs once before any is repeated.
    for (let round = 0; round === 0 || performance.now() - startedMs < seconds * 1e3; round++) {
      for (const fault of random.shuffle(Object.keys(faults))) {
        if (round > 0 && performance.now() - startedMs > seconds * 1e3) break
        await faults[fault]?.(random.fork())
        clients.life += 1
        const tookMs = await allAnswer(replicas, `${round}-${clients.life}`)
        healedMs.set(fault, [...(healedMs.get(fault) ?? []), Math.round(tookMs)])
      }
    }
    const keptBefore = clients.kept
    clients.mayLose = true
    const [, ...majority] = random.shuffle(etcd.members)
    await Promise.all(majority.map((member) => member.kill('SIGKILL')))
    const goneMs = performance.now()
    await delay(6_000)
    const backMs = performance.now()
    await Promise.all(majority.map((member) => member.start()))
    const majorityMs = Math.round(await allAnswer(replicas, 'majority'))
    await delay(1_000)
    await clients.stop()

    const all = [...clients.history.values()].flat()
    const told = all.filter(({ answer }) => answer?.ok)
    const terms = Math.max(...replicas.map(({ servedTerm }) => servedTerm))
    const without = all.filter(({ call, sentMs }) => call.type === 'campaign' && sentMs > goneMs && sentMs < backMs)
    console.log(`service on a cluster, seed ${seed}:`, Object.fromEntries(healedMs), {
      calls: all.length,
      unknown: all.filter(({ answer }) => !answer).length,
      grants: told.filter(({ call }) => call.type === 'campaign').length,
      terms,
      kept: clients.kept,
      majorityMs,
      withoutQuorum: without.length,
    })
    for (const [group, history] of clients.history) {
      expect(contradictions(history), `${group}, ${how}`).toEqual([])
      expect(unexplained(history, { repeats: true }), `${group}, ${how}`).toBeUndefined()
    }
    expect(clients.losses, how).toEqual([])
    const granted = without.filter(({ answer, answeredMs }) => answer?.ok && answeredMs < backMs)
    expect(granted, how).toEqual([])
    expect(Math.max(...[...healedMs.values()].flat()), how).toBeLessThan(healedWithinMs)
    expect(majorityMs, how).toBeLessThan(healedWithinMs)
    // A run with few events proves little.
    expect(terms, how).toBeGreaterThanOrEqual(5)
    expect(keptBefore, how).toBeGreaterThan(20)
    expect(without.length, how).toBeGreaterThan(5)
    for (const type of ['campaign', 'renew', 'resign', 'leader']) {
      expect(told.filter(({ call }) => call.type === type).length, `${type}, ${how}`).toBeGreaterThan(100)
    }
  })
})
