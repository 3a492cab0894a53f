/** The connections of the store, and the commands that are queued on them. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Cluster, Redis } from 'ioredis'
import { createClient, createClientPool, createCluster, createSentinel } from 'redis'
import { createClient as createClient4, createCluster as createCluster4 } from 'redis-4'
import { createClient as createClient5, createCluster as createCluster5 } from 'redis-5'
import { expect, onTestFinished, test, vi } from 'vitest'
import { programs } from '../../../../../test/servers/programs.ts'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { redis, redisWith } from '../../../../../test/servers/redis.ts'
import { start, type RunningServer } from '../../../../../test/servers/server.ts'
import { describeWith, describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { redisStore, type RedisClient, type RedisStoreOptions } from '../../../src/stores/redis/index.ts'
import { makeCertificate } from '../../kubernetes/certificate.ts'

const { signal } = new AbortController()
const call = { signal, timeoutMs: 10_000 }
const claim = {
  election: 'payments',
  holder: 'ada',
  attempt: 'first',
  leaseDurationMs: 15_000,
  afterTerm: 0,
  metadata: {},
}

function open(options: RedisStoreOptions) {
  const store = redisStore(options)
  onTestFinished(() => store.close?.())
  return store
}

function adminOf({ port }: { port: number }): Redis {
  const admin = new Redis({ port, lazyConnect: true, connectionName: 'admin' })
  onTestFinished(() => admin.disconnect())
  return admin
}

async function started(kind: typeof redis): Promise<RunningServer> {
  const server = await start(kind)
  onTestFinished(() => server.stop())
  return server
}

/** How many clients are connected, not counting the caller. */
async function clientsOf(admin: Redis): Promise<number> {
  const lines = String(await admin.client('LIST'))
    .trim()
    .split('\n')
  return lines.filter((line) => !line.includes('name=admin')).length
}

describeWith(redis, 'connections of redisStore', (server) => {
  test('an abandoned call sends nothing more, even if Redis has lost the script', async () => {
    const proxy = await startProxy(server().port)
    onTestFinished(() => proxy.stop())
    const admin = adminOf(server())
    const store = open({ client: new Redis({ port: proxy.port, lazyConnect: true }) })
    await store.read('other', call)
    await admin.script('FLUSH')
    // The answer that the script is unknown arrives when the claim is abandoned. The read continues.
    proxy.set('hold', 'to-client')
    const read = store.read('other', call)
    await expect(store.acquire(claim, { signal, timeoutMs: 50 })).rejects.toMatchObject({
      code: 'TIMEOUT',
      message: expect.stringMatching(/^Redis did not answer within \d+ ms\.$/),
    })
    proxy.set('pass')
    expect(await read).toBeUndefined()
    expect(await store.read('payments', call)).toBeUndefined()
    expect(await admin.exists('tenure:{payments}:term')).toBe(0)
  })

  test('several watches of a channel share one handler of the client', async () => {
    const listeners = new Set<unknown>()
    const connect = () => {
      const client = createClient({ url: server().url })
      const subscribe = client.subscribe.bind(client)
      client.subscribe = (channel, listener) => {
        listeners.add(listener)
        return subscribe(channel, listener)
      }
      return client
    }
    const store = open({ connect })
    const watches = Array.from({ length: 3 }, () => store.watch?.('payments', { signal })[Symbol.asyncIterator]())
    for (const watch of watches) await watch?.next()
    await watches[0]?.return?.()
    await store.watch?.('payments', { signal })[Symbol.asyncIterator]().next()
    expect(listeners.size).toBe(1)
  })

  test('a watch still works when another watch is abandoned while both are connecting', async () => {
    const proxy = await startProxy(server().port)
    onTestFinished(() => proxy.stop())
    const store = open({ client: new Redis({ port: proxy.port, lazyConnect: true }) })
    await store.read('payments', call)
    const watch = (of: AbortSignal) => store.watch?.('payments', { signal: of })[Symbol.asyncIterator]().next()
    proxy.set('hold')
    const opened = proxy.opened
    const leaving = new AbortController()
    const [left, stays] = [watch(leaving.signal), watch(signal)]
    await vi.waitUntil(() => proxy.opened > opened, 10_000)
    leaving.abort()
    expect(await left).toMatchObject({ done: true })
    proxy.set('pass')
    expect(await stays).toEqual({ done: false, value: undefined })
  })

  test('a watch still works when it begins at the moment the previous watch ends', async () => {
    const store = open({ client: new Redis({ port: server().port, lazyConnect: true }) })
    const watch = () => store.watch?.('payments', { signal })[Symbol.asyncIterator]()
    let last = watch()
    await last?.next()
    // In each round, the previous watch ends one turn of the event loop later.
    for (let turns = 0; turns < 20; turns++) {
      const next = watch()
      const first = next?.next()
      for (let turn = 0; turn < turns; turn++) await Promise.resolve()
      const end = last?.return?.()
      expect(await first).toEqual({ done: false, value: undefined })
      await end
      last = next
    }
  })

  test('the store refuses a client that was used before, a pool, and anything that is not a client', async () => {
    const admin = adminOf(server())
    const client = new Redis({ port: server().port, lazyConnect: true })
    const store = open({ connect: () => client })
    expect(await store.read('payments', call)).toBeUndefined()
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal')
    const usedBefore = { code: 'INVALID_OPTION', message: expect.stringContaining('create a new client each time') }
    await vi.waitFor(() => expect(store.read('payments', call)).rejects.toMatchObject(usedBefore), 10_000)
    for (const made of [createClientPool({ url: server().url }), { eval: () => {}, evalSha: () => {} }]) {
      await expect(open({ connect: () => made as never }).read('payments', call)).rejects.toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringContaining('not a pool'),
      })
    }
  })

  test('the store closes a client that it cannot use', async () => {
    const destroyed: unknown[] = []
    const store = open({
      waitForReplicas: 1,
      connect: () => {
        const client = createSentinel({ name: 'm', sentinelRootNodes: [{ host: '127.0.0.1', port: server().port }] })
        destroyed.push(vi.spyOn(client, 'destroy'))
        return client
      },
    })
    await expect(store.read('payments', call)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    expect(destroyed).toHaveLength(1)
    expect(destroyed[0]).toHaveBeenCalled()
  })
})

describeWithPrograms([programs.redis], 'connections that redisStore leaves behind', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-redis-connections-'))
  const { cert, key } = makeCertificate()
  const files = { 'tls-cert-file': join(folder, 'cert'), 'tls-key-file': join(folder, 'key') }
  const secure = redisWith({ 'tls-auth-clients': 'no', 'tls-ca-cert-file': files['tls-cert-file'], ...files })

  test('calls that were abandoned during the TLS handshake leave no connection behind', async () => {
    onTestFinished(() => rmSync(folder, { recursive: true }))
    writeFileSync(files['tls-cert-file'], cert)
    writeFileSync(files['tls-key-file'], key)
    const server = await started({
      ...secure,
      args: (place) => [...secure.args(place), '--port', '0', '--tls-port', String(place.port)],
      async probe({ port }) {
        const client = new Redis({
          port,
          host: '127.0.0.1',
          tls: { ca: cert },
          retryStrategy: () => null,
          lazyConnect: true,
        })
        client.on('error', () => {})
        await client.connect().finally(() => client.disconnect())
      },
    })
    const clients: Record<string, (port: number) => RedisClient> = {
      ioredis: (port) => new Redis({ port, host: '127.0.0.1', tls: { ca: cert }, lazyConnect: true }),
      'redis 6': (port) => createClient({ socket: { port, host: '127.0.0.1', tls: true, ca: cert } }),
      'redis 5': (port) => createClient5({ socket: { port, host: '127.0.0.1', tls: true, ca: cert } }),
      'redis 4': (port) => createClient4({ socket: { port, host: '127.0.0.1', tls: true, ca: cert } }),
    }
    const left = Object.entries(clients).map(async ([name, clientOf]) => {
      const proxy = await startProxy(server.port)
      onTestFinished(() => proxy.stop())
      const store = open({ client: clientOf(proxy.port) })
      proxy.set('hold')
      for (let calls = 0; calls < 3; calls++) {
        await expect(store.read('payments', { signal, timeoutMs: 50 }), name).rejects.toMatchObject({ code: 'TIMEOUT' })
      }
      proxy.set('pass')
      await vi.waitFor(() => expect(proxy.open, name).toBe(0), { timeout: 10_000, interval: 20 })
      expect(await store.read('payments', call), name).toBeUndefined()
    })
    await Promise.all(left)
  })

  test(
    'calls to a cluster leave no connection behind when a server hangs or closes its connections',
    { timeout: 60_000 },
    async () => {
      const kind = redisWith({ 'cluster-enabled': 'yes', 'cluster-require-full-coverage': 'no' })
      const servers = await Promise.all([started(kind), started(kind), started(kind)])
      const addresses = servers.map(({ port }) => `127.0.0.1:${port}`)
      execFileSync('redis-cli', ['--cluster', 'create', ...addresses, '--cluster-yes'], { stdio: 'pipe' })
      const admins = servers.map(adminOf)
      for (const admin of admins) {
        await vi.waitFor(async () => expect(await admin.cluster('INFO')).toContain('cluster_state:ok'), 20_000)
      }
      const hosts = servers.map(({ port }) => ({ host: '127.0.0.1', port }))
      const rootNodes = servers.map(({ url }) => ({ url }))
      const once = { socket: { reconnectStrategy: false as const }, disableOfflineQueue: true }
      const clients: Record<string, () => RedisClient> = {
        ioredis: () => new Cluster(hosts, { lazyConnect: true }),
        'redis 6': () => createCluster({ rootNodes }),
        'redis 5': () => createCluster5({ rootNodes }),
        'redis 4': () => createCluster4({ rootNodes }),
        'redis 6 without reconnects': () => createCluster({ rootNodes, defaults: once }),
        'redis 4 without reconnects': () => createCluster4({ rootNodes, defaults: once }),
      }
      const [hanging] = servers
      const [cut] = admins
      // Enough elections that each server has some of them.
      const elections = ['a', 'b', 'c', 'd', 'e', 'f']
      for (const [name, connect] of Object.entries(clients)) {
        const store = open({ connect })
        const readAll = (timeoutMs: number) =>
          Promise.allSettled(elections.map((election) => store.read(election, { signal, timeoutMs })))
        const areRead = async () => (await readAll(5_000)).every(({ status }) => status === 'fulfilled')
        await vi.waitUntil(areRead, { timeout: 20_000, interval: 50 })
        hanging?.pause()
        for (let calls = 0; calls < 2; calls++) await readAll(100)
        hanging?.resume()
        await cut?.call('CLIENT', 'KILL', 'TYPE', 'normal')
        await readAll(1_000)
        await store.close?.()
        const left = () => Promise.all(admins.map(clientsOf))
        await vi.waitFor(async () => expect(await left(), name).toEqual([0, 0, 0]), { timeout: 10_000, interval: 50 })
      }
    },
  )
})
