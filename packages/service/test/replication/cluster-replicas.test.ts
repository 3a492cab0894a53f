/** Tests of the active replica and its followers, as seen by an operator from any replica. */
import { request } from 'node:http'
import type { Socket } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { systemClock } from '../../src/common/clock.ts'
import { PeerClient } from '../../src/replication/peer-client.ts'
import {
  peerHeaders,
  peerKeys,
  peerPath,
  newNonce,
  proofOf,
  protocol,
} from '../../src/replication/peer-authentication.ts'
import { textOf } from '../../src/storage/position.ts'
import { claimOf, here, openCluster, openPair, type Replica, type TestCluster } from './test-cluster.ts'

const anyMs = expect.any(Number) as number

function followerOf({ name, address }: Replica) {
  return { replica: name, address, sinceMs: anyMs, changesBehind: 0, lagMs: 0 }
}

test('every replica shows the same active replica, its term, and followers without lag', async () => {
  const cluster = await openCluster(3)
  const [active, ...followers] = cluster.replicas as [Replica, Replica, Replica]
  await active.groups.campaign(claimOf('a'), here)
  const expected = {
    active: { replica: active.name, address: active.address, term: 1, sinceMs: anyMs },
    followers: expect.arrayContaining(followers.map(followerOf)) as object[],
  }
  for (const { replicas } of cluster.replicas) {
    await expect.poll(() => replicas.view()).toEqual(expected)
    expect((await replicas.view()).followers).toHaveLength(2)
  }
  const [one] = followers
  // A follower knows only its own name.
  expect(one?.replicas.ownView()).toMatchObject({ active: undefined, followers: [{ replica: one?.name }] })
})

test('the other replicas, including the former active one, follow the new active replica after a failover', async () => {
  const { cluster, active, follower } = await openPair()
  cluster.depose()
  await cluster.elect(follower)
  const expected = { active: { replica: follower.name, term: 2 }, followers: [followerOf(active)] }
  for (const { replicas } of cluster.replicas) await expect.poll(() => replicas.view()).toMatchObject(expected)
})

test('a replica shows only itself as a follower while no replica is active', async () => {
  const { cluster, follower } = await openPair()
  cluster.depose()
  const alone = { replica: follower.name, address: follower.address, sinceMs: undefined, lagMs: undefined }
  expect(await follower.replicas.view()).toMatchObject({ active: undefined, followers: [alone] })
  // The storage still answers.
  await follower.replicas.check()
})

test('an unreachable active replica is shown without the details that only it knows', async () => {
  const { active, follower } = await openPair()
  await active.server.close()
  const view = await follower.replicas.view()
  expect(view).toMatchObject({
    active: { replica: active.name, address: active.address, term: 1, sinceMs: undefined },
    followers: [{ replica: follower.name, sinceMs: undefined }],
  })
})

test('a replica logs why the active replica refuses it or cannot be reached', async () => {
  const { cluster } = await openPair()
  const onTrouble = vi.fn<(error: Error) => void>()
  const texts = () => onTrouble.mock.calls.map(([error]) => error.message)
  const stranger = await cluster.add({ client: { onTrouble, secret: () => 'another' } })
  await cluster.elect(cluster.replicas[0] as Replica)
  await expect.poll(texts).toContainEqual(expect.stringMatching(/refuses this replica: 401 The secret does not match$/))
  stranger.places.set({ kind: 'remote', term: 9, address: 'http://127.0.0.1:9', replica: 'gone' })
  await expect.poll(texts).toContainEqual(expect.stringMatching(/cannot be reached: connect ECONNREFUSED/))
})

test('a follower that confirms nothing is shown with its lag in changes and in time', async () => {
  const { cluster, active } = await openPair()
  const slow = await connect(cluster, active, 'slow')
  const start = textOf(active.groups.changes.position)
  slow.onChanges = () => start
  await slow.follow(start, false, 1_000)
  const lagOfSlow = () => active.server.view().followers.find(({ replica }) => replica === 'slow')
  expect(lagOfSlow()).toMatchObject({ changesBehind: 0, lagMs: 0 })
  await active.groups.campaign(claimOf('a'), here)
  await active.groups.campaign(claimOf('b', { groupId: 'other' }), here)
  await expect.poll(lagOfSlow).toMatchObject({ changesBehind: 2 })
  await expect.poll(() => lagOfSlow()?.lagMs).toBeGreaterThan(0)
  // The other follower is unaffected.
  const others = () => active.server.view().followers.filter(({ replica }) => replica !== 'slow')
  await expect.poll(others).toMatchObject([{ changesBehind: 0, lagMs: 0 }])
  slow.onChanges = () => textOf(active.groups.changes.position)
  await active.groups.campaign(claimOf('c', { groupId: 'third' }), here)
  await expect.poll(lagOfSlow).toMatchObject({ changesBehind: 0, lagMs: 0 })
})

test('a replica that reconnects is listed once, even if its old connection is still open', async () => {
  const { cluster, active } = await openPair()
  for (const _ of [1, 2]) {
    const client = await connect(cluster, active, 'again')
    await client.replicas(1_000)
  }
  const names = active.server.view().followers.map(({ replica }) => replica)
  expect(names.toSorted()).toEqual(['again', 'replica-1'])
})

test.for([
  ['no name', ''],
  ['a name that is not a string', ',"from":[1,"http://127.0.0.1:1"]'],
  ['a name without an address', ',"from":["a"]'],
  ['a name that is too long', `,"from":["${'a'.repeat(600)}","http://127.0.0.1:1"]`],
])('a replica that sends %s in its greeting is disconnected even if its proof is valid', async ([, from = '']) => {
  const { cluster, active } = await openPair()
  const { socket, proof } = await greet(cluster, active)
  const closed = vi.fn()
  socket.once('close', closed)
  const json = `{"term":1,"proof":"${proof}"${from}}`
  const frame = Buffer.alloc(4 + json.length)
  frame.writeUInt32BE(json.length)
  frame.write(json, 4)
  socket.write(frame)
  await expect.poll(() => closed.mock.calls.length).toBe(1)
  expect(active.server.view().followers.map(({ replica }) => replica)).not.toContain('a')
})

async function connect(cluster: TestCluster, active: Replica, replica: string): Promise<PeerClient> {
  const { clusterId, secret } = await cluster.storage.head()
  const self = { replica, address: 'http://127.0.0.1:1' }
  const client = new PeerClient(active.address, {
    clusterId,
    secret: () => secret,
    terms: active.terms,
    clock: systemClock,
    self,
  })
  onTestFinished(() => client.close())
  return client
}

/** Performs the handshake up to the first message. */
async function greet(cluster: TestCluster, active: Replica): Promise<{ socket: Socket; proof: string }> {
  const { clusterId, secret } = await cluster.storage.head()
  const [key] = peerKeys(secret)
  if (!key) throw new Error('no key')
  const caller = newNonce()
  const headers = {
    connection: 'Upgrade',
    upgrade: protocol,
    [peerHeaders.cluster]: clusterId,
    [peerHeaders.key]: key.name,
    [peerHeaders.nonce]: caller,
  }
  return new Promise((resolve, reject) => {
    const greeting = request(`${active.address}${peerPath}`, { headers, agent: false })
    greeting.once('error', reject)
    greeting.once('upgrade', (response, socket) => {
      onTestFinished(() => void socket.destroy())
      socket.resume().on('error', () => {})
      const called = String(response.headers[peerHeaders.nonce])
      resolve({ socket, proof: proofOf('caller', key.key, { clusterId, caller, called }) })
    })
    greeting.end()
  })
}
