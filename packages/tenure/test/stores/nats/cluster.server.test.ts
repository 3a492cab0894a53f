/** A cluster of three servers, one of which is cut off from the others, or killed. */
import { deepEqual, rejects } from 'node:assert/strict'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { passes } from '../../../../../test/mutants/passes-check.ts'
import { startNatsCluster, type NatsCluster } from '../../../../../test/servers/nats-cluster.ts'
import { natsClient } from '../../../../../test/servers/nats.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import { openStore } from '../../../src/stores/index.ts'
import { keyOf } from '../../../src/stores/nats/keys.ts'
import * as sound from '../../../src/stores/nats/index.ts'
import { claimOf, granted } from '../cloud/cloud-checks.ts'
import { natsClusterMutations } from './mutants.ts'

const callOf = (timeoutMs = 10_000) => ({ signal: new AbortController().signal, timeoutMs })
const leaseDurationMs = 60_000

async function clientOf(servers: string | string[]) {
  const client = await natsClient(servers, { ignoreClusterUpdates: true })
  onTestFinished(() => client.close())
  return client
}

/** The server that leads the stream, cut off from the others, which have renewed a lease since. */
async function openScene(cluster: NatsCluster) {
  const all = await clientOf(cluster.members.map(({ url }) => url))
  await all.bucket('leases', { replicas: 3 })
  const leader = await cluster.leaderOf('leases')
  const cutOff = await clientOf(leader.url)
  const rest = await clientOf(cluster.members.filter(({ name }) => name !== leader.name).map(({ url }) => url))
  const [kvOfCutOff, kvOfRest] = await Promise.all([cutOff.bucket('leases'), rest.bucket('leases')])
  const majority = sound.natsStore({ kv: kvOfRest })
  const record = granted(await majority.acquire(claimOf({ leaseDurationMs }), callOf()))
  deepEqual(await sound.natsStore({ kv: kvOfCutOff }).read(record.election, callOf()), record)
  cluster.isolate(leader)
  // The others elect a new leader of the stream.
  const renew = () => majority.renew(held(record), callOf(2_000)).then(granted, () => undefined)
  const renewed = await vi.waitUntil(renew, { timeout: 40_000, interval: 50 })
  return { cutOff, kvOfCutOff, kvOfRest, record, renewed }
}

type Scene = Awaited<ReturnType<typeof openScene>>
type Check = (library: Pick<typeof sound, 'natsStore'>, scene: Scene) => Promise<void>

const checks: Readonly<Record<string, Check>> = {
  async 'a server that is cut off from the others does not answer a read from its own copy'({ natsStore }, scene) {
    await rejects(natsStore({ kv: scene.kvOfCutOff }).read(scene.record.election, callOf(1_500)))
  },
  async 'an answer of a server that does not have the newest write is not used'({ natsStore }, scene) {
    const { kvOfRest, cutOff, record } = scene
    await rejects(natsStore({ kv: kvOfRest, manager: cutOff.manager }).read(record.election, callOf(1_500)))
  },
}

describeWithPrograms([programs.nats], 'natsStore on a cluster of three', () => {
  let cluster: NatsCluster
  beforeAll(async () => {
    cluster = await startNatsCluster()
  }, 60_000)
  afterAll(() => cluster.stop())

  test('a read is current or rejected, and the checks catch their mutants', { timeout: 120_000 }, async () => {
    const scene = await openScene(cluster)
    onTestFinished(() => cluster.join())
    const { kvOfCutOff, record, renewed } = scene
    // The fault is real: the server returns the outdated value to a client that reads the bucket as usual.
    const outdated = await kvOfCutOff.get(keyOf(record.election, 'record'))
    expect(record.version.split('-')[0]).toBe(String(outdated?.revision))

    for (const [name, check] of Object.entries(checks)) {
      expect(await passes(() => check(sound, scene)), name).toBe(true)
    }
    for (const mutation of natsClusterMutations) {
      const { mutant } = await loadMutant<{ mutant: typeof sound }>(mutation, { mutant: 'stores/nats/index.ts' })
      const check = checks[mutation.caughtBy]
      expect(check && (await passes(() => check(mutant, scene))), mutation.name).toBe(false)
    }

    const store = sound.natsStore({ kv: kvOfCutOff })
    await expect(store.renew(held(record), callOf(1_500))).rejects.toMatchObject({ retryable: true })
    cluster.join()
    const read = () => store.read(record.election, callOf(2_000)).catch(() => undefined)
    expect(await vi.waitUntil(read, { timeout: 40_000, interval: 50 })).toEqual(renewed)
  })

  test('a lease survives the loss of the server that leads the stream', { timeout: 120_000 }, async () => {
    const store = await openStore(`${cluster.url}/leases`, { environment: {} })
    onTestFinished(() => store.close?.())
    const record = granted(await store.acquire(claimOf({ leaseDurationMs }), callOf()))
    const leader = await cluster.leaderOf('leases')
    await leader.kill('SIGKILL')
    const current = async () => {
      const found = await store.read(record.election, callOf(2_000)).catch(() => undefined)
      return found && (await store.renew(held(found), callOf(2_000)).then(granted, () => undefined))
    }
    const renewed = await vi.waitUntil(current, { timeout: 40_000, interval: 50 })
    expect(renewed).toMatchObject({ attempt: record.attempt, term: record.term })
    const other = await store.acquire(claimOf({ election: record.election }), callOf())
    expect(other).toMatchObject({ ok: false, highestTerm: record.term })
  })
})
