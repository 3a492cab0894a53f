/** Calls that reach, or seem to reach, a different server, database, or slot than the previous call. */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { Cluster, Redis } from 'ioredis'
import { createClient } from 'redis'
import { expect, onTestFinished, test, vi } from 'vitest'
import { programs } from '../../../../../test/servers/programs.ts'
import { redis, redisWith } from '../../../../../test/servers/redis.ts'
import { start, type RunningServer } from '../../../../../test/servers/server.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { LeaseRecord, Outcome } from '../../../src/engine/lease-store.ts'
import { redisStore, type RedisClient, type RedisStoreOptions } from '../../../src/stores/redis/index.ts'

const { signal } = new AbortController()
const call = { signal, timeoutMs: 5_000 }
const claim = {
  election: 'payments',
  holder: 'ada',
  attempt: 'first',
  leaseDurationMs: 15_000,
  afterTerm: 0,
  metadata: {},
}
const key = 'tenure:{payments}:lease'

function recordOf(outcome: Outcome): LeaseRecord {
  if (!outcome.ok) throw new Error(`the call was refused: ${JSON.stringify(outcome)}`)
  return outcome.record
}

async function started(kind = redis): Promise<RunningServer> {
  const server = await start(kind)
  onTestFinished(() => server.stop())
  return server
}

function clientAt(url: string): Redis {
  const client = new Redis(url, { lazyConnect: true })
  client.on('error', () => {})
  onTestFinished(() => client.disconnect())
  return client
}

function open(options: RedisStoreOptions) {
  const store = redisStore(options)
  onTestFinished(() => store.close?.())
  return store
}

/** A primary with one replica. */
async function pair() {
  const primary = await started()
  const replica = await started(redisWith({ replicaof: `127.0.0.1 ${primary.port}` }))
  const admin = clientAt(primary.url)
  await vi.waitFor(async () => expect(await admin.info('replication')).toMatch(/slave0:.*state=online/), 20_000)
  return { primary, replica, admin }
}

/** An address that leads to one server, and after `move` to another. */
async function movable(from: RunningServer, to: RunningServer) {
  let { port } = from
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1')
    client.pipe(upstream).pipe(client)
    sockets.add(client)
    for (const socket of [client, upstream]) socket.on('error', () => {}).on('close', () => client.destroy())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const move = () => {
    port = to.port
    for (const socket of sockets) socket.destroy()
  }
  onTestFinished(() => {
    move()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, move }
}

describeWithPrograms([programs.redis], 'redisStore when servers, databases or slots change', () => {
  test.each<[string, (port: number) => RedisClient]>([
    ['ioredis', (port) => new Redis({ port, host: '127.0.0.1', retryStrategy: () => 1 })],
    ['redis', (port) => createClient({ socket: { port, host: '127.0.0.1', reconnectStrategy: 1 } })],
  ])('a write is not confirmed by the replicas of another server when %s reconnects by itself', async (_, clientOf) => {
    const [old, next] = await Promise.all([pair(), pair()])
    const address = await movable(old.primary, next.primary)
    const store = open({ connect: () => clientOf(address.port), waitForReplicas: 1 })
    await store.read('other', call)
    old.replica.pause()
    onTestFinished(() => old.replica.resume())
    const grant = store.acquire(claim, { signal, timeoutMs: 10_000 })
    grant.catch(() => {})
    await vi.waitUntil(() => old.admin.exists(key), 10_000)
    const movedAt = performance.now()
    address.move()
    await expect(grant).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: true })
    // The error is reported immediately, not at the deadline.
    expect(performance.now() - movedAt).toBeLessThan(4_000)
    expect(await next.admin.exists(key)).toBe(0)
    expect(recordOf(await store.acquire(claim, call)).term).toBe(1)
  })

  test('a watch ignores messages from another database, although all databases share their channels', async () => {
    const { url } = await started()
    const [here, there] = [open({ client: clientAt(`${url}/1`) }), open({ client: clientAt(`${url}/2`) })]
    const first = recordOf(await here.acquire(claim, call))
    const changes = here.watch?.('payments', { signal })[Symbol.asyncIterator]()
    expect((await changes?.next())?.value).toEqual(first)
    const change = changes?.next()
    const heard = clientAt(url)
    await heard.subscribe(key)
    const told = once(heard, 'message')
    const other = recordOf(await there.acquire({ ...claim, holder: 'bob', attempt: 'other' }, call))
    recordOf(await there.renew(held(other), call))
    await told
    const renewed = recordOf(await here.renew(held(first), call))
    expect((await change)?.value).toEqual(renewed)
    await changes?.return?.()
  })

  test('the store refuses a replica, even a writable one', async () => {
    const { url } = await started(redisWith({ replicaof: '127.0.0.1 1', 'replica-read-only': 'no' }))
    const replica = clientAt(url)
    const isReplica = { code: 'BACKEND_UNAVAILABLE', retryable: true, message: expect.stringContaining('is a replica') }
    await expect(open({ client: replica }).acquire(claim, call)).rejects.toMatchObject(isReplica)
    expect(await replica.exists(key)).toBe(0)
  })

  test('nothing is granted while a cluster is moving the keys of an election', async () => {
    const kind = redisWith({ 'cluster-enabled': 'yes' })
    const [from, to] = await Promise.all([started(kind), started(kind)])
    const admins = [clientAt(from.url), clientAt(to.url)] as const
    await admins[0].cluster('ADDSLOTSRANGE', 0, 16_383)
    await admins[0].cluster('MEET', '127.0.0.1', to.port)
    const ids = await Promise.all(admins.map((admin) => admin.cluster('MYID')))
    const [source, target] = ids.map(String) as [string, string]
    for (const admin of admins) {
      await vi.waitFor(async () => {
        expect(await admin.cluster('INFO')).toMatch(/cluster_state:ok[^]*cluster_known_nodes:2/)
        expect(String(await admin.cluster('NODES'))).toMatch(/ 0-16383/)
      }, 20_000)
    }
    const client = new Cluster([{ host: '127.0.0.1', port: from.port }], { lazyConnect: true })
    const [leader, standby] = [open({ client }), open({ client })]
    const record = recordOf(await leader.acquire(claim, call))
    const slot = await admins[0].cluster('KEYSLOT', key)
    await admins[1].cluster('SETSLOT', slot, 'IMPORTING', source)
    await admins[0].cluster('SETSLOT', slot, 'MIGRATING', target)
    const move = (moved: string) => admins[0].migrate('127.0.0.1', to.port, moved, 0, 5_000)
    const other = { ...claim, attempt: 'other', holder: 'bob' }
    await move(key)
    for (const store of [leader, standby]) {
      await expect(store.acquire(other, { signal, timeoutMs: 500 })).rejects.toMatchObject({ retryable: true })
    }
    await move('tenure:{payments}:term')
    for (const admin of admins) await admin.cluster('SETSLOT', slot, 'NODE', target)
    expect(await standby.acquire(other, call)).toMatchObject({ ok: false, record: { holder: 'ada' } })
    expect(recordOf(await leader.renew(held(record), call)).term).toBe(1)
  })
})
