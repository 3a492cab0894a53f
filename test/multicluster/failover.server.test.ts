/**
 * Tests which candidate leads, and how soon, after a candidate, a controller, an API server, a cluster, or the global
 * store has failed.
 */
import { cpSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { findViolations } from '../chaos/check-logs.ts'
import { faketimeEnvironment } from '../chaos/faketime.ts'
import { Fleet, type Member as Candidate } from '../chaos/fleet.ts'
import { startClusters, type Clusters, type Controller, type Member } from './clusters.ts'
import { clusterPrograms } from '../servers/cluster.ts'
import { pathOf } from '../servers/find-program.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'

const leaseDurationMs = 3_000
/** The delay of one relay on a busy machine. It is shorter than another lease. */
const leewayMs = 2_500
const usualErrors = ['TIMEOUT', 'BACKEND_UNAVAILABLE']
const namespace = 'default'

describeWithPrograms([...clusterPrograms, programs.faketime], 'across clusters whose clocks are an hour apart', () => {
  let clusters: Clusters
  let hourAhead: Record<string, string>

  beforeAll(async () => {
    const file = join(import.meta.dirname, `.clock-${process.pid}`)
    writeFileSync(file, '+3600')
    hourAhead = faketimeEnvironment(pathOf(programs.faketime), file)
    const env = ({ cluster }: { readonly cluster: string }) => (cluster === 'west' ? hourAhead : {})
    clusters = await startClusters({ names: ['east', 'west'], controllers: 2, env })
    return async () => {
      await clusters.stop()
      rmSync(file)
    }
  })

  const homeOf = (identity: string) => clusters.of(identity === 'candidate-1' ? 'east' : 'west')
  const pathTo = (election: string) =>
    `/apis/tenure.dev/v1alpha1/namespaces/${namespace}/multiclusterleases/${election}`

  /** Starts one candidate in each cluster. */
  async function elect(election: string) {
    const fleet = await Fleet.open({
      size: 2,
      election,
      timings: { leaseDurationMs },
      place: () => ({ store: 'url', url: `multicluster://${namespace}` }),
      env: (identity) => ({
        KUBECONFIG: homeOf(identity).kubeConfig.candidate,
        ...(homeOf(identity).name === 'west' && hourAhead),
      }),
    })
    onTestFinished(({ task }) => fleet.close({ keepFolder: task.result?.state === 'fail' }))
    await fleet.start()
    const leader = await fleet.nextLeader(0)
    const standby = fleet.members.find((member) => member !== leader) as Candidate
    await standby.standsBy()
    await leader.until('renewed')
    const home = homeOf(leader.identity)
    /** Waits until the standby is elected. Returns how long that took, by the time in the event of the standby. */
    const next = async (within = leaseDurationMs + leewayMs) => {
      const now = fleet.now()
      const { at } = await standby.until('elected')
      const tookMs = (at - now) / 1e6
      expect(tookMs).toBeLessThan(within)
      return tookMs
    }
    const end = async () => {
      await fleet.stop()
      expect(findViolations(await fleet.lives(), fleet.guard, usualErrors)).toEqual([])
    }
    return { fleet, leader, standby, home, next, end, term: leader.term }
  }

  const firstOf = async ({ controllers }: Member): Promise<Controller> =>
    vi.waitUntil(
      async () => {
        for (const one of controllers) if (/_first\{.*\} 1$/m.test(await one.metrics())) return one
        return undefined
      },
      { timeout: 20_000, interval: 100 },
    )

  test('another cluster takes over within a second when a candidate releases', async () => {
    const { leader, next, end } = await elect('released')
    const followed = next(1_000)
    await leader.stop()
    await followed
    await end()
  })

  test('another cluster takes over after one lease when a candidate dies', async () => {
    const { leader, next, end } = await elect('killed')
    await leader.kill()
    await next()
    await end()
  })

  test('no leader is lost when a controller dies, even the primary one', async () => {
    const { fleet, leader, home, end, term } = await elect('controller')
    const first = await firstOf(home)
    await first.kill()
    await leader.until('renewed', 6)
    expect(fleet.leader?.term).toBe(term)
    await first.start()
    await end()
  })

  test('another cluster takes over after one lease when a cluster loses its controllers', async () => {
    const { leader, home, next, end } = await elect('no-controllers')
    const followed = next()
    await Promise.all(home.controllers.map((one) => one.kill()))
    await leader.until('lost')
    await followed
    await Promise.all(home.controllers.map((one) => one.start()))
    await end()
  })

  test('another cluster takes over after one lease when a cluster loses its API server', async () => {
    const { home, next, end } = await elect('no-api-server')
    await home.api.kill('SIGKILL')
    await next()
    await home.api.start()
    await end()
  })

  test('another cluster takes over after one lease when a whole cluster dies', async () => {
    const { leader, home, next, end } = await elect('whole-cluster')
    await Promise.all([leader.kill(), home.api.kill('SIGKILL'), ...home.controllers.map((one) => one.kill())])
    await next()
    await home.api.start()
    await Promise.all(home.controllers.map((one) => one.start()))
    await end()
  })

  test('another cluster takes over after one lease when a cluster is cut off from the global store', async () => {
    const { home, next, end } = await elect('cut-off')
    home.backbone.set('blackhole')
    await next()
    home.backbone.set('pass')
    home.backbone.reset()
    await end()
  })

  test('no leader is lost when the global store is down for less than the deadline, and one term is lost when it is down for longer', async () => {
    const { fleet, leader, end, term } = await elect('store-away')
    clusters.global.pause()
    await delay(leaseDurationMs / 6)
    clusters.global.resume()
    await leader.until('renewed', 3)
    expect(fleet.leader?.term).toBe(term)
    await clusters.global.kill('SIGKILL')
    await leader.until('lost')
    const condition = await vi.waitUntil(
      async () => {
        const { api } = homeOf(leader.identity)
        const { body } = await api.admin.request<Resource>('GET', pathTo('store-away'))
        return body.status.conditions.find(({ type, status }) => type === 'BackendHealthy' && status === 'False')
      },
      { timeout: 20_000, interval: 100 },
    )
    expect(condition.message).not.toBe('')
    await clusters.global.start()
    await fleet.nextLeader(term)
    await end()
  })

  test('a deleted resource is recreated by the next call, and no leader is lost', async () => {
    const { fleet, leader, home, end, term } = await elect('deleted')
    const before = await home.api.admin.request<Resource>('GET', pathTo('deleted'))
    await home.api.admin.request('DELETE', pathTo('deleted'))
    await leader.until('renewed', 4)
    expect(fleet.leader?.term).toBe(term)
    const after = await home.api.admin.request<Resource>('GET', pathTo('deleted'))
    expect(after.body.metadata.uid).not.toBe(before.body.metadata.uid)
    expect(after.body.status).toMatchObject({ leader: leader.identity, term })
    await end()
  })

  test('terms keep rising after an API server was restored from a backup that shows an old leader', async () => {
    const { fleet, home, end, term } = await elect('restored')
    const { etcd } = home.api
    const [data, backup] = [join(etcd.directory, 'data'), join(etcd.directory, 'backup')]
    const withServersDown = async (act: () => void) => {
      await home.api.kill('SIGKILL')
      await etcd.kill('SIGKILL')
      act()
      await etcd.start()
      await home.api.start()
    }
    const next = async (above: number) => {
      const leader = await fleet.nextLeader(above)
      const { term: led } = leader
      await leader.tell('stepDown', leaseDurationMs)
      return led
    }
    await withServersDown(() => cpSync(data, backup, { recursive: true }))
    const before = await next(await next(term - 1))
    // The backup shows a leader of two terms ago, with its lease.
    await withServersDown(() => {
      rmSync(data, { recursive: true })
      cpSync(backup, data, { recursive: true })
    })
    const after = await next(await next(before))
    expect(after).toBeGreaterThan(before + 1)
    await end()
  })
})

interface Resource {
  readonly metadata: { readonly uid: string }
  readonly status: {
    readonly leader: string
    readonly term: number
    readonly conditions: readonly { readonly type: string; readonly status: string; readonly message: string }[]
  }
}
