/**
 * Two clusters with two controllers and two candidates each, and one global lock. Every part fails, some of them
 * concurrently.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { Random } from '../../packages/testing/src/simulation/random.ts'
import { findViolations, survey } from '../chaos/check-logs.ts'
import { Fleet } from '../chaos/fleet.ts'
import { memberFaults } from '../chaos/member-faults.ts'
import { networkFaults } from '../chaos/network-faults.ts'
import { deckOf, injectFaults, type Fault, type Target } from '../chaos/inject-faults.ts'
import { startClusters, type Controller, type Member } from './clusters.ts'
import { clusterPrograms } from '../servers/cluster.ts'
import { describeWithPrograms } from '../servers/suite.ts'

// The deadline is as late as the rules allow, so that a belief that lasts slightly too long is detected.
const timings = { leaseDurationMs: 3_000, renewIntervalMs: 600, renewDeadlineMs: 2_790, retryIntervalMs: 400 }
const { leaseDurationMs } = timings
const usualErrors = ['TIMEOUT', 'BACKEND_UNAVAILABLE', 'UNAUTHORIZED', 'RECORD_INVALID']

const controllerFaults = {
  async 'a controller is killed'(controller, random) {
    await controller.kill()
    await delay(random.between(0, 1) * leaseDurationMs)
    await controller.start()
  },
  async 'a controller is paused'(controller, random) {
    controller.pause()
    await delay(random.between(0.2, 2) * leaseDurationMs)
    controller.resume()
  },
  async 'a controller is stopped'(controller) {
    await controller.kill('SIGTERM')
    await controller.start()
  },
} satisfies Record<string, Fault<Controller>>

/** A whole cluster, or the network between it and the other clusters. */
interface Site extends Target {
  readonly member: Member
}

function siteFaults(election: string) {
  const path = (member: Member) =>
    `/apis/tenure.dev/v1alpha1/namespaces/${member.api.namespace}/multiclusterleases/${election}`
  return {
    async 'a cluster is cut off from the global store'({ member }, random) {
      member.backbone.set('blackhole')
      await delay(random.between(0.3, 1.5) * leaseDurationMs)
      member.backbone.set('pass')
      member.backbone.reset()
    },
    async 'answers from the global store are late'({ member }, random) {
      member.backbone.set('hold', 'to-client')
      await delay(random.between(0.3, 1) * leaseDurationMs)
      member.backbone.set('pass', 'to-client')
    },
    'an API server is killed': ({ member }, random) =>
      member.api.restart('SIGKILL', { downForMs: random.between(0, 0.5) * leaseDurationMs }),
    async 'an API server is paused'({ member }, random) {
      member.api.pause()
      await delay(random.between(0.2, 1.2) * leaseDurationMs)
      member.api.resume()
    },
    'the resource is deleted': ({ member }) => member.api.admin.request('DELETE', path(member)).catch(() => undefined),
  } satisfies Record<string, Fault<Site>>
}

describeWithPrograms(clusterPrograms, 'across clusters', () => {
  test('one candidate leads at a time across clusters, whatever dies, is paused, or is cut off, and everything recovers', async () => {
    const runMs = Number(process.env['TENURE_CHAOS_SECONDS'] ?? 120) * 1e3
    const seed = Number(process.env['TENURE_CHAOS_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
    const random = new Random(seed)
    const election = 'jobs'
    const clusters = await startClusters({ names: ['east', 'west'], controllers: 2 })
    onTestFinished(() => clusters.stop())
    const homeOf = (identity: string) => clusters.members[Number(identity.at(-1)) % 2] as Member
    const fleet = await Fleet.open({
      size: 4,
      timings,
      election,
      exitWithinMs: 40_000,
      place: () => ({ store: 'url', url: 'multicluster://default' }),
      env: (identity) => ({ KUBECONFIG: homeOf(identity).kubeConfig.candidate }),
    })
    onTestFinished(({ task }) => fleet.close({ keepFolder: task.result?.state === 'fail' }))
    await fleet.start()
    const how = `seed ${seed}, logs in ${fleet.folder}`
    const { kill, stop, longPause, stepDown } = memberFaults(leaseDurationMs)
    const { reset, slow, refuse } = networkFaults(({ identity }) => homeOf(identity).network, leaseDurationMs)
    const sites = clusters.members.map((member): Site => ({ member, isBusy: false, term: undefined }))
    const controllers = clusters.members.flatMap((member) => member.controllers)
    const wreaked = await Promise.all([
      injectFaults([deckOf(sites, siteFaults(election))], {
        random: random.fork(),
        runMs,
        leastFree: 2,
        everyMs: [3_000, 6_000],
      }),
      injectFaults([deckOf(controllers, controllerFaults)], {
        random: random.fork(),
        runMs,
        leastFree: 3,
        everyMs: [1_500, 4_000],
      }),
      injectFaults([deckOf(fleet.members, { kill, stop, longPause, stepDown, reset, slow, refuse })], {
        random,
        runMs,
        leastFree: 2,
        everyMs: [1_000, 3_000],
        otherwise: 0.3,
      }),
    ])
    const healedMs = await fleet.ledAgainMs()
    await fleet.stop()
    const lives = await fleet.lives()
    const { guard } = fleet
    const seen = survey(lives, guard, fleet.pauses, leaseDurationMs)
    const done = Object.fromEntries(wreaked.flatMap((map) => [...map]))
    console.log(JSON.stringify({ seed, ...seen, healedMs, done }))
    expect(findViolations(lives, guard, usualErrors), how).toEqual([])
    expect(Object.values(done), how).not.toContain(0)
    expect(seen.terms, how).toBeGreaterThan(8)
  }, 600_000)
})
