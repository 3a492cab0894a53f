/** A cluster of three servers, one of which is cut off from the others, or killed. */
import { deepEqual, rejects } from 'node:assert/strict'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { passes } from '../../../../../test/mutants/passes-check.ts'
import { startNatsCluster, type NatsCluster, type NatsMember } from '../../../../../test/servers/nats-cluster.ts'
import { natsClient } from '../../../../../test/servers/nats.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import { openStore } from '../../../src/stores/index.ts'
import { keyOf } from '../../../src/stores/nats/keys.ts'
import * as sound from '../../../src/stores/nats/index.ts'
import { claimOf, granted } from '../cloud/cloud-checks.ts'
import { natsClusterMutations, type NatsMutation } from './mutants.ts'

const callOf = (timeoutMs = 10_000) => ({ signal: new AbortController().signal, timeoutMs })
const leaseDurationMs = 60_000

async function clientOf(servers: string | string[]) {
  const client = await natsClient(servers, { ignoreClusterUpdates: true })
  onTestFinished(() => client.close())
  return client
}

/** A cluster, a client of two members, and a client of the third, which leads the stream or follows. */
async function openScene(role: 'leader' | 'follower', cluster: NatsCluster) {
  const all = await clientOf(cluster.members.map(({ url }) => url))
  await all.bucket('leases', { replicas: 3 })
  const leader = await cluster.leaderOf('leases')
  const isOne = ({ name }: NatsMember) => (name === leader.name) === (role === 'leader')
  const one = cluster.members.find(isOne)
  if (!one) throw new Error('there is no such member')
  const rest = await clientOf(cluster.members.filter(({ name }) => name !== one.name).map(({ url }) => url))
  const majority = sound.natsStore({ kv: await rest.bucket('leases') })
  const record = granted(await majority.acquire(claimOf({ leaseDurationMs }), callOf()))
  const kv = await (await clientOf(one.url)).bucket('leases')
  deepEqual(await sound.natsStore({ kv }).read(record.election, callOf()), record)
  return { one, majority, kv, record }
}

type Scene = Awaited<ReturnType<typeof openScene>>
type Check = (library: Pick<typeof sound, 'natsStore'>, scene: Scene) => Promise<void>

const checks: Readonly<Record<string, Check>> = {
  async 'a read through a follower is never older than a write that was confirmed before it'({ natsStore }, scene) {
    const store = natsStore({ kv: scene.kv })
    const { election } = scene.record
    let record = await scene.majority.read(election, callOf())
    for (let count = 0; count < 20 && record; count++) {
      record = granted(await scene.majority.renew(held(record), callOf()))
      deepEqual(await store.read(election, callOf()), record)
    }
  },
  async 'a server that is cut off from the others does not answer a read from its own copy'({ natsStore }, scene) {
    await rejects(natsStore({ kv: scene.kv }).read(scene.record.election, callOf(1_500)))
  },
}

async function passesSoundOnly(scene: Scene, mutation: NatsMutation): Promise<void> {
  const check = checks[mutation.caughtBy]
  if (!check) throw new Error(`There is no check "${mutation.caughtBy}".`)
  const { mutant } = await loadMutant<{ mutant: typeof sound }>(mutation, { mutant: 'stores/nats/index.ts' })
  expect(await passes(() => check(sound, scene))).toBe(true)
  // A follower lags only now and then.
  let isCaught = false
  for (let tries = 0; tries < 20 && !isCaught; tries++) isCaught = !(await passes(() => check(mutant, scene)))
  expect(isCaught, mutation.name).toBe(true)
}

function mutantOf(check: string): NatsMutation {
  const found = natsClusterMutations.find(({ caughtBy }) => caughtBy === check)
  if (!found) throw new Error(`no mutant is caught by "${check}"`)
  return found
}

describeWithPrograms([programs.nats], 'natsStore on a cluster of three', () => {
  let cluster: NatsCluster
  beforeAll(async () => {
    cluster = await startNatsCluster()
  }, 60_000)
  afterAll(() => cluster.stop())

  const [ofFollower = '', ofCutOff = ''] = Object.keys(checks)

  test(`${ofFollower}, and the check catches its mutant`, { timeout: 60_000 }, async () => {
    await passesSoundOnly(await openScene('follower', cluster), mutantOf(ofFollower))
  })

  test(`${ofCutOff}, and the check catches its mutant`, { timeout: 120_000 }, async () => {
    const scene = await openScene('leader', cluster)
    const { one, majority, kv, record } = scene
    cluster.isolate(one)
    onTestFinished(() => cluster.join())
    // The others elect a new leader of the stream.
    const renew = () => majority.renew(held(record), callOf(2_000)).then(granted, () => undefined)
    const renewed = await vi.waitUntil(renew, { timeout: 40_000, interval: 50 })
    // The fault is real: the server returns the outdated value to a client that reads the bucket as usual.
    const outdated = await kv.get(keyOf(record.election, 'record'))
    expect(record.version.split('-')[0]).toBe(String(outdated?.revision))
    await passesSoundOnly(scene, mutantOf(ofCutOff))
    await expect(sound.natsStore({ kv }).renew(held(record), callOf(1_500))).rejects.toMatchObject({ retryable: true })
    cluster.join()
    const read = () => sound.natsStore({ kv }).read(record.election, callOf(2_000)).catch(() => undefined)
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
