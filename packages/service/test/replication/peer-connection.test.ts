/** Tests of who may connect to a replica, and of peers that send invalid messages. */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { systemClock } from '../../src/common/clock.ts'
import { PeerClient, type PeerClientOptions } from '../../src/replication/peer-client.ts'
import { PeerServer } from '../../src/replication/peer-server.ts'
import { FairQueue } from '../../src/common/fair-queue.ts'
import { textOf } from '../../src/storage/position.ts'
import { dns, makeAuthority, serverAuth } from '../auth/certificate-authority.ts'
import { connectRaw, frameOf } from './raw-peer.ts'
import { claimOf, here, openCluster, type Replica, type ReplicaOptions } from './test-cluster.ts'

async function openActive(options: ReplicaOptions = {}): Promise<Replica> {
  const { replicas } = await openCluster(1, options)
  return replicas[0] as Replica
}

function clientOf({ address, terms }: Pick<Replica, 'address' | 'terms'>, more: Partial<PeerClientOptions> = {}) {
  const self = { replica: 'client', address: 'http://127.0.0.1:1' }
  const options = { clusterId: 'cluster', secret: () => 'secret', terms, clock: systemClock, self, ...more }
  const client = new PeerClient(address, options)
  onTestFinished(() => client.close())
  return client
}

const soon = { deadlineMs: 5_000 }
const ask = (client: PeerClient) => client.call('leader', ['jobs'], soon)

describe('peer connections', () => {
  test('a replica with the secret is answered', async () => {
    expect(await ask(clientOf(await openActive()))).toMatchObject({ highestTerm: 0 })
  })

  test('a replica with another secret or of another cluster is refused, and its call does not take effect', async () => {
    const active = await openActive()
    const refused = { name: 'PeerError', mayBeDone: false }
    await expect(ask(clientOf(active, { secret: () => 'other' }))).rejects.toMatchObject({
      ...refused,
      message: expect.stringContaining('401') as string,
    })
    await expect(ask(clientOf(active, { clusterId: 'other' }))).rejects.toMatchObject({
      ...refused,
      message: expect.stringContaining('409') as string,
    })
  })

  test.each([
    ['new old', 'old'],
    ['old', 'new old'],
    ['new old', 'new old'],
  ])('a replica with the secret "%s" accepts a peer with the secret "%s"', async (ours, theirs) => {
    const active = await openActive({ server: { secret: () => ours } })
    expect(await ask(clientOf(active, { secret: () => theirs }))).toMatchObject({ highestTerm: 0 })
  })

  test('a replica sends no call to an impostor that does not know the secret', async () => {
    const said: string[] = []
    const impostor = createServer((socket) => {
      socket.on('error', () => {})
      socket.on('data', (data) => {
        said.push(data.toString())
        socket.write('HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: tenure-link-1\r\ntenure-link-nonce: x\r\n\r\n')
      })
    }).listen(0, '127.0.0.1')
    await once(impostor, 'listening')
    onTestFinished(() => void impostor.close())
    const { terms } = await openActive()
    const address = `http://127.0.0.1:${(impostor.address() as AddressInfo).port}`
    const campaign = clientOf({ address, terms }).call('campaign', [claimOf('a', { metadata: '{"a":1}' })], soon)
    await expect(campaign).rejects.toMatchObject({
      mayBeDone: false,
      message: expect.stringMatching(/does not know the secret/),
    })
    expect(said).toHaveLength(1)
    expect(said[0]).toMatch(/^GET \/link HTTP/)
    expect(said[0]).not.toContain('metadata')
  })

  test('a replica does not connect to another machine without TLS', async () => {
    const { terms } = await openActive()
    const client = clientOf({ address: 'http://192.0.2.1:7071', terms })
    await expect(ask(client)).rejects.toMatchObject({
      mayBeDone: false,
      message: expect.stringMatching(/neither an https: URL/),
    })
  })

  test('a replica does not listen on a non-loopback address without TLS', async () => {
    const { places, terms, hub, groups } = await openActive()
    const changes = { feed: hub.feed, listen: groups.listen, textsOf: groups.textsOf, whenFrom: async () => true }
    const options = {
      clusterId: 'cluster',
      secret: () => 'secret',
      activeReplicas: places,
      terms,
      clock: systemClock,
      port: 0,
      changes,
      fairQueue: new FairQueue(),
      budget: { deliver: () => true, work: () => {} },
      active: () => undefined,
    }
    expect(() => new PeerServer({ ...options, host: '0.0.0.0' })).toThrow(TypeError)
  })

  test("a replica is answered over TLS only if it knows the authority of the peer's certificate", async () => {
    const authority = makeAuthority()
    const issued = authority.issue({ names: [dns('localhost')], usages: [serverAuth] })
    const active = await openActive({ server: { tls: issued } })
    const at = { ...active, address: active.address.replace('127.0.0.1', 'localhost') }
    expect(await ask(clientOf(at, { ca: () => authority.cert }))).toMatchObject({ highestTerm: 0 })
    await expect(ask(clientOf(at))).rejects.toMatchObject({ mayBeDone: false })
    await expect(ask(clientOf(at, { ca: () => makeAuthority().cert }))).rejects.toMatchObject({ mayBeDone: false })
  })

  test('a renewed certificate is used for new connections, which a client accepts once it trusts the new authority', async () => {
    const [former, later] = [makeAuthority(), makeAuthority()]
    const wish = { names: [dns('localhost')], usages: [serverAuth] }
    const active = await openActive({ server: { tls: former.issue(wish) } })
    const at = { ...active, address: active.address.replace('127.0.0.1', 'localhost') }
    let ca = former.cert
    const connected = clientOf(at, { ca: () => ca })
    await ask(connected)
    active.server.renew(later.issue(wish))
    await expect(ask(clientOf(at, { ca: () => ca }))).rejects.toMatchObject({ mayBeDone: false })
    ca = later.cert
    expect(await ask(clientOf(at, { ca: () => ca }))).toMatchObject({ highestTerm: 0 })
    expect(await ask(connected)).toMatchObject({ highestTerm: 0 })
  })

  test('a call is not sent when its caller disconnects before the connection is open', async () => {
    const active = await openActive()
    active.proxy.set({ delayMs: 200 })
    const client = clientOf(active)
    const caller = new AbortController()
    const ghost = client.call('campaign', [claimOf('ghost')], { ...soon, signal: caller.signal })
    const other = ask(client)
    caller.abort()
    await expect(ghost).rejects.toMatchObject({ name: 'PeerError', mayBeDone: false })
    expect(await other).toMatchObject({ highestTerm: 0 })
  })
})

describe('invalid peers', () => {
  test.each([
    [{ secret: 'other' }, 401],
    [{ clusterId: 'other' }, 409],
    [{ upgrade: 'tenure-link-9' }, 426],
    [{ path: '/other' }, 404],
  ])('a peer that connects with %o is refused', async (wrong, status) => {
    await expect(connectRaw((await openActive()).address, wrong)).rejects.toThrow(`refused: ${status}`)
  })

  test('a request without an upgrade is answered with 426', async () => {
    expect((await fetch((await openActive()).address)).status).toBe(426)
  })

  test('a peer that does not prove the secret is disconnected before any of its calls runs', async () => {
    const active = await openActive()
    const calls = [[1, 'campaign', [claimOf('a')], 1_000]]
    for (const proof of [undefined, '', 'x', 'x'.repeat(43)]) {
      const peer = await connectRaw(active.address)
      peer.send({ term: 1, proof, calls })
      await peer.closed
      expect(peer.heard).toEqual([])
    }
    expect(await active.groups.leader('jobs')).toMatchObject({ highestTerm: 0 })
  })

  test('a peer that sends too much before it is identified is disconnected', async () => {
    const { address } = await openActive()
    const peer = await connectRaw(address)
    peer.send({ term: 1, proof: peer.proof, from: ['peer', 'http://127.0.0.1:1'], padding: 'x'.repeat(5_000) })
    await peer.closed
  })

  test.each([
    ['a length that is too large', Buffer.from([0xff, 0xff, 0xff, 0xff, 0x20])],
    ['a message that is not JSON', frameOf('{"term":')],
    ['an empty message', frameOf('')],
    ['a list', frameOf('[]')],
    ['a message without a term', frameOf({ calls: [] })],
    ['a term that is a string', frameOf({ term: '1' })],
    ['calls that are not a list', frameOf({ term: 1, calls: { 0: 'x' } })],
    ['a call without an id', frameOf({ term: 1, calls: [['leader', ['jobs'], 1]] })],
    ['endless nesting', frameOf('['.repeat(1_000_000))],
  ])('a peer that sends %s is disconnected, and other peers are not', async (_what, bytes) => {
    const active = await openActive()
    const other = clientOf(active)
    await ask(other)
    const peer = await connectRaw(active.address)
    peer.send({ term: 1, proof: peer.proof, from: ['peer', 'http://127.0.0.1:1'] })
    peer.socket.write(bytes)
    await peer.closed
    expect(await ask(other)).toMatchObject({ highestTerm: 0 })
  })

  test('silent connections do not keep other peers from connecting', async () => {
    const active = await openActive()
    const port = Number(new URL(active.address).port)
    const other = clientOf(active)
    await ask(other)
    const silent = Array.from({ length: 300 }, () => connect({ port, host: '127.0.0.1' }).on('error', () => {}))
    onTestFinished(() => silent.forEach((socket) => void socket.destroy()))
    await Promise.all(silent.slice(0, 280).map((socket) => once(socket, 'close')))
    expect(await ask(clientOf(active))).toMatchObject({ highestTerm: 0 })
    expect(await ask(other)).toMatchObject({ highestTerm: 0 })
  })

  test('a connection that never begins the TLS handshake is closed', async () => {
    const tls = makeAuthority().issue({ names: [dns('localhost')], usages: [serverAuth] })
    const { address } = await openActive({ server: { tls } })
    const socket = connect({ port: Number(new URL(address).port), host: '127.0.0.1' }).resume()
    onTestFinished(() => void socket.destroy())
    await once(socket, 'close')
  }, 10_000)

  test('a peer that sends an unknown call gets an error, and its other calls are answered', async () => {
    const active = await openActive()
    const peer = await connectRaw(active.address)
    peer.send({
      term: 1,
      proof: peer.proof,
      from: ['peer', 'http://127.0.0.1:1'],
      calls: [
        [1, 'conquer', [], 1_000],
        [2, 'leader', [7], 1_000],
        [3, 'toString', [], 1_000],
        [4, 'renew', [{ groupId: {}, nodeId: 'a', term: 1, extendByMs: 1 }], 1_000],
        [5, 'leader', ['jobs'], 1_000],
        [6, 'follow', ['not a position', false], 1_000],
        [7, 'renewMany', ['a', [['jobs', 1]]], 1_000],
      ],
    })
    await vi.waitFor(() => expect(peer.heard.flatMap(({ answers = [] }) => answers)).toHaveLength(7), 10_000)
    const answers = peer.heard.flatMap(({ answers = [] }) => answers as [number, number, { code?: string }][])
    expect(answers.map(([id, how]) => [id, how]).toSorted()).toEqual(
      [1, 2, 3, 4, 5, 6, 7].map((id) => [id, id === 5 ? 0 : 1]),
    )
    expect(answers.find(([id]) => id === 1)?.[2]).toMatchObject({
      message: expect.stringMatching(/Do all replicas run the same version/),
    })
  })

  test('a peer that stops reading for a while receives every change in order afterwards', async () => {
    const active = await openActive()
    const from = textOf(active.hub.feed.position)
    const peer = await connectRaw(active.address)
    peer.send({
      term: 1,
      proof: peer.proof,
      from: ['peer', 'http://127.0.0.1:1'],
      calls: [[1, 'follow', [from, false], 1_000]],
    })
    await vi.waitFor(() => expect(peer.heard.flatMap(({ answers = [] }) => answers)).toHaveLength(1), 10_000)
    peer.socket.pause()
    const metadata = JSON.stringify({ text: 'x'.repeat(4_000) })
    const ids = Array.from({ length: 3_000 }, (_, at) => `g-${at}`)
    for (let at = 0; at < ids.length; at += 100) {
      const some = ids.slice(at, at + 100)
      await Promise.all(some.map((groupId) => active.groups.campaign(claimOf('a', { groupId, metadata }), here)))
    }
    peer.socket.resume()
    const told = () => peer.heard.flatMap(({ told: some = [] }) => some as { change?: { groupId: string } }[])
    await vi.waitFor(() => expect(told().at(-1)).toMatchObject({ change: { groupId: ids.at(-1) } }), 10_000)
    expect(told().flatMap(({ change }) => change?.groupId ?? [])).toEqual(ids)
  })
})

test('a subject whose calls fill its share of a peer connection is refused, and other traffic is not', async () => {
  const active = await openActive()
  active.proxy.set('hold')
  const client = clientOf(active)
  const megabyte = 'x'.repeat(2 ** 20)
  const call = (subject: string) => client.call('leader', [megabyte], { deadlineMs: 60_000, caller: { subject } })
  const waiting: Promise<unknown>[] = []
  const fill = (subject: string) => waiting.push(...Array.from({ length: 8 }, () => call(subject)))
  fill('first')
  await expect(call('first')).rejects.toMatchObject({ code: 'RATE_LIMITED' })
  for (const subject of ['second', 'third', 'fourth']) fill(subject)
  const outcomes = Promise.allSettled(waiting)
  await expect(call('fifth')).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  const followed = client.follow(textOf(active.hub.feed.position), false, 5_000).catch((error: unknown) => error)
  client.close()
  expect(await followed).toMatchObject({ name: 'PeerError' })
  await outcomes
})

test('a call that is not answered in time fails with an unknown outcome', async () => {
  const active = await openActive()
  const client = clientOf(active)
  await ask(client)
  active.proxy.set('hold', 'to-client')
  const late = client.call('leader', ['jobs'], { deadlineMs: 20 })
  await expect(late).rejects.toMatchObject({ name: 'PeerError', mayBeDone: true })
  active.proxy.set('pass')
  expect(await ask(client)).toMatchObject({ highestTerm: 0 })
})

test('a campaign waits at the active replica no longer than its caller does', async () => {
  const active = await openActive()
  await active.groups.campaign(claimOf('a'), here)
  const waiting = clientOf(active).call('campaign', [claimOf('b', { waitMs: 60_000 })], { deadlineMs: 100 })
  // Either side may notice the timeout first.
  await waiting.catch(() => {})
  const behind = active.groups.campaign(claimOf('c', { waitMs: 60_000 }), here)
  await active.groups.resign({ groupId: 'jobs', nodeId: 'a', term: 1 })
  expect(await behind).toMatchObject({ granted: true, lease: { nodeId: 'c' } })
})

test('both sides abandon a half-open connection, and calls continue on a new one', async () => {
  const speed = 20
  const clock = {
    ...systemClock,
    monotonicMs: () => systemClock.monotonicMs() * speed,
    setTimer: (delayMs: number, callback: () => void, options?: { background?: boolean }) =>
      systemClock.setTimer(delayMs / speed, callback, options),
  }
  const { replicas } = await openCluster(2, { clock, groups: { policy: { minTtlMs: 1_000, maxTtlMs: 600_000 } } })
  const [active, follower] = replicas as [Replica, Replica]
  await follower.groups.campaign(claimOf('a', { ttlMs: 600_000 }), here)
  const waiting = follower.groups.campaign(claimOf('b', { waitMs: 300_000, ttlMs: 600_000 }), here)
  const { opened } = active.proxy
  active.proxy.freezeExisting()
  // On this clock, no call is held for longer than 100 ms of real time.
  const again = <T>(ask: () => T) => vi.waitFor(ask, { timeout: 10_000, interval: 10 })
  expect(await again(() => follower.groups.leader('jobs'))).toMatchObject({ lease: { nodeId: 'a' } })
  expect(active.proxy.opened).toBeGreaterThan(opened)
  await again(() => follower.groups.resign({ groupId: 'jobs', nodeId: 'a', term: 1 }))
  expect(await waiting).toMatchObject({ granted: true, lease: { nodeId: 'b', term: 2 } })
})
