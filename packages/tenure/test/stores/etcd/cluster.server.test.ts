import { AssertionError, ok, rejects } from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { startEtcdCluster } from '../../../../../test/servers/etcd-cluster.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import * as sound from '../../../src/stores/etcd/index.ts'
import { claimOf, follow, granted, skippingClock } from '../../clients/etcd/checks.ts'
import { etcdClusterMutations } from './mutants.ts'

const callOf = (timeoutMs = 10_000) => ({ signal: new AbortController().signal, timeoutMs })

/** A member that is cut off from the others, and an election that all members knew before. */
async function openScene() {
  const cluster = await startEtcdCluster(programs.etcd)
  onTestFinished(() => cluster.stop())
  const [cutOff, ...rest] = cluster.members
  if (!cutOff) throw new Error('there is no member')
  const majority = sound.etcdStore({ endpoints: rest.map(({ url }) => url) })
  const record = granted(await majority.acquire(claimOf({ leaseDurationMs: 60_000 }), callOf()))
  return { cluster, cutOff, rest, majority, record }
}

type Scene = Awaited<ReturnType<typeof openScene>>
type Library = Pick<typeof sound, 'etcdStore'>

/** Each check begins before the member is cut off, and returns a function to run after that. */
const checks: Record<string, (library: Library, scene: Scene) => Promise<() => Promise<void>>> = {
  async 'a member that is cut off does not answer from its own copy'({ etcdStore }, { cutOff, majority }) {
    const record = granted(await majority.acquire(claimOf({ leaseDurationMs: 60_000 }), callOf()))
    const store = etcdStore({ endpoints: cutOff.url })
    await store.read(record.election, callOf())
    return async () => {
      granted(await majority.renew(held(record), callOf()))
      await rejects(store.read(record.election, callOf(1_000)))
    }
  },
  async 'a watch leaves a member that is cut off, long before the watch timeout'({ etcdStore }, scene) {
    const { cutOff, rest, majority } = scene
    const record = granted(await majority.acquire(claimOf({ leaseDurationMs: 60_000 }), callOf()))
    const leaving = new AbortController()
    onTestFinished(() => leaving.abort())
    const store = etcdStore({ endpoints: [cutOff.url, ...rest.map(({ url }) => url)] })
    const states = store.watch?.(record.election, { signal: leaving.signal })[Symbol.asyncIterator]()
    await states?.next()
    const next = states?.next()
    next?.catch(() => {})
    return async () => {
      granted(await majority.renew(held(record), callOf()))
      ok(await Promise.race([next, delay(12_000)]), 'no change arrived')
    }
  },
}

async function passes(check: () => Promise<void>): Promise<boolean> {
  try {
    await check()
    return true
  } catch (error) {
    if (error instanceof AssertionError) return false
    throw error
  }
}

describeWithPrograms([programs.etcd], 'etcdStore on a cluster with a member that is cut off', () => {
  test('the store passes checks that its mutants fail', { timeout: 120_000 }, async () => {
    const scene = await openScene()
    const begun = await Promise.all(
      etcdClusterMutations.map(async (mutation) => {
        const check = checks[mutation.caughtBy]
        if (!check) throw new Error(`There is no check "${mutation.caughtBy}".`)
        const { leases } = await loadMutant<{ leases: typeof sound }>(mutation, { leases: 'stores/etcd/index.ts' })
        const judges = [await check(sound, scene), await check(leases, scene)]
        return { name: mutation.name, judges }
      }),
    )
    const named = await sound.etcdStore({ endpoints: scene.cutOff.url }).inspect(callOf())
    expect(named).toEqual([
      { risk: 'tight', text: 'This store is configured with 1 of its 3 members. List all of them.' },
    ])
    scene.cluster.isolate(scene.cutOff)
    for (const { name, judges } of begun) {
      const outcomes = await Promise.all(judges.map(passes))
      expect({ name, outcomes }).toEqual({ name, outcomes: [true, false] })
    }
  })

  test('a watch continues on another member when its own is killed, and shows the changes made in the meantime', async () => {
    const { cluster, majority, record } = await openScene()
    const clock = skippingClock()
    const endpoints = cluster.members.map(({ url }) => url)
    const { next, until } = follow(sound.etcdStore({ endpoints, clock }), record.election)
    expect((await next())?.version).toBe(record.version)
    const renewed = granted(await majority.renew(held(record), callOf()))
    await until((state) => state?.version === renewed.version)
    // The watch has lasted long enough to be resumed immediately.
    clock.skip(10_000)
    const seen = until((state) => state?.released === true)
    const [own] = cluster.members
    await own?.kill('SIGKILL')
    granted(await majority.release(held(renewed), callOf()))
    expect((await seen)?.term).toBe(1)
  })
})
