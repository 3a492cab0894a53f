/**
 * A fleet on Leases, behind networks that lose, delay, and cut connections, and on an API server that stalls and dies.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { Random } from '../../packages/testing/src/simulation/random.ts'
import type { Cluster } from '../servers/cluster.ts'
import { startProxy, type Proxy } from '../servers/proxy.ts'
import { describeWithOwnCluster } from '../servers/suite.ts'
import { findViolations, survey } from './check-logs.ts'
import { Fleet, type Member } from './fleet.ts'
import { kubernetesStoreLocation } from './kubernetes-store-location.ts'
import { findTermViolations, LeaseHistory, successionsOf } from './lease-history.ts'
import { longestFaultMs, memberFaults } from './member-faults.ts'
import { networkFaults } from './network-faults.ts'
import { deckOf, injectFaults, type Fault, type Target } from './inject-faults.ts'

// The deadline is as late as the rules allow, so that a belief that lasts slightly too long is detected.
const timings = { leaseDurationMs: 2_000, renewIntervalMs: 400, renewDeadlineMs: 1_860, retryIntervalMs: 300 }
const { leaseDurationMs } = timings
const longestMs = longestFaultMs(leaseDurationMs)

/** The error codes that a broken network and a dead server may cause. */
const expectedErrors = ['TIMEOUT', 'BACKEND_UNAVAILABLE']

const runMs = Number(process.env['TENURE_CHAOS_SECONDS'] ?? 30) * 1e3
const seed = Number(process.env['TENURE_CHAOS_SEED'] ?? Math.floor(Math.random() * 2 ** 31))

interface Scene {
  readonly fleet: Fleet
  readonly history: LeaseHistory
  networkOf(member: Member): Proxy
}

/** Five processes, each with its own proxy to the API server. */
async function openScene(cluster: Cluster, election: string): Promise<Scene> {
  const proxies = new Map<string, Proxy>()
  const networkOf = (identity: string) => {
    const proxy = proxies.get(identity)
    if (!proxy) throw new Error(`${identity} has no network`)
    return proxy
  }
  const fleet = await Fleet.open({
    size: 5,
    timings,
    election,
    dawdleMs: 2 * leaseDurationMs,
    place: (identity, folder) => kubernetesStoreLocation(cluster, folder, networkOf(identity).port),
  })
  const history = LeaseHistory.open(cluster, election)
  onTestFinished(async ({ task }) => {
    history.close()
    await fleet.close({ keepFolder: task.result?.state === 'fail' })
    for (const proxy of proxies.values()) proxy.stop()
  })
  for (const { identity } of fleet.members) proxies.set(identity, await startProxy(cluster.port))
  await fleet.start()
  return { fleet, history, networkOf: ({ identity }) => networkOf(identity) }
}

const serverFaults = (cluster: Cluster): Record<string, Fault<Target>> => {
  const paused = (server: Pick<Cluster, 'pause' | 'resume'>) => async (_server: Target, random: Random) => {
    server.pause()
    await delay(random.between(0.2, 1.8) * leaseDurationMs)
    server.resume()
  }
  return {
    'kill the API server': (_server, random) => cluster.restart('SIGKILL', { downForMs: random.between(0, 1_000) }),
    'pause the API server': paused(cluster),
    'pause etcd': paused(cluster.etcd),
  }
}

/** Returns whether there were several takeovers, some of them after a lease had expired. */
function isEnough({ states }: LeaseHistory): boolean {
  const successions = successionsOf(states)
  return successions.length >= 5 && successions.some(({ released }) => !released)
}

/** Called when all faults have ended. */
async function judge({ fleet, history }: Scene, done: ReadonlyMap<string, number>): Promise<void> {
  const how = `seed ${seed}, logs in ${fleet.folder}`
  const healedMs = await fleet.ledAgainMs()
  await fleet.stop()
  const lives = await fleet.lives()
  const saw = survey(lives, fleet.guard, fleet.pauses, leaseDurationMs)
  console.log(`chaos of ${fleet.election}, seed ${seed}:`, Object.fromEntries(done), {
    ...saw,
    processes: lives.length,
    versions: history.states.length,
    healedMs,
  })
  expect([...findViolations(lives, fleet.guard, expectedErrors), ...findTermViolations(history.states)], how).toEqual(
    [],
  )
  expect(healedMs, how).toBeLessThan(leaseDurationMs + 2_000)
  // A run with few events proves little.
  expect(Math.min(...done.values()), how).toBeGreaterThan(0)
  expect(isEnough(history), how).toBe(true)
}

describeWithOwnCluster('five processes on a Lease lead one at a time', (cluster) => {
  const timeout = 2 * runMs + 60_000
  test(
    `five processes lead one at a time for ${runMs / 1e3} s while their networks lose, delay, and cut connections`,
    { timeout },
    async () => {
      const scene = await openScene(cluster(), 'networks')
      const { kill, stop, longPause } = memberFaults(leaseDurationMs)
      const done = await injectFaults(
        [deckOf(scene.fleet.members, { ...networkFaults(scene.networkOf, longestMs), kill, stop, longPause })],
        {
          random: new Random(seed),
          runMs,
          leastFree: 2,
          everyMs: [50, 600],
          otherwise: 0.3,
          isEnough: () => isEnough(scene.history),
        },
      )
      // At the end, make every connection half open, so that nobody can lead.
      const networks = scene.fleet.members.map((member) => scene.networkOf(member))
      for (const network of networks) network.set('blackhole')
      await delay(1.5 * leaseDurationMs)
      for (const network of networks) network.set('pass')
      await judge(scene, done)
    },
  )

  test(
    `five processes lead one at a time for ${runMs / 1e3} s while the API server is killed and paused`,
    { timeout },
    async () => {
      const scene = await openScene(cluster(), 'servers')
      const random = new Random(seed)
      const server: Target = { isBusy: false, term: undefined }
      const { kill, stop, longPause, stepDown } = memberFaults(leaseDurationMs)
      const { reset } = networkFaults(scene.networkOf, longestMs)
      const [toServer, toMembers] = await Promise.all([
        injectFaults([deckOf([server], serverFaults(cluster()))], {
          random: random.fork(),
          runMs,
          leastFree: 1,
          everyMs: [1_000, 5_000],
        }),
        injectFaults([deckOf(scene.fleet.members, { kill, stop, longPause, stepDown, reset })], {
          random,
          runMs,
          leastFree: 2,
          everyMs: [500, 3_000],
          isEnough: () => isEnough(scene.history),
        }),
      ])
      await cluster().restart('SIGKILL', { downForMs: leaseDurationMs })
      await judge(scene, new Map([...toServer, ...toMembers]))
    },
  )
})
