import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Cluster, Redis } from 'ioredis'
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis-5'
import { createClient, createCluster, createSentinel } from 'redis'
import { createClient as createClient4, createCluster as createCluster4 } from 'redis-4'
import {
  createClient as createClient5,
  createCluster as createCluster5,
  createSentinel as createSentinel5,
} from 'redis-5'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { redis, redisWith, sentinelFor } from '../../../../../test/servers/redis.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { start, type RunningServer } from '../../../../../test/servers/server.ts'
import { describeWith, describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { systemClock } from '../../../src/common/clock.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import {
  absentVersion,
  type AcquireClaim,
  type LeaseRecord,
  type LeaseStore,
  type Outcome,
} from '../../../src/engine/lease-store.ts'
import { openStore } from '../../../src/stores/index.ts'
import { requiredAclRules } from '../../../src/stores/redis/failures.ts'
import { redisStore, type RedisClient, type RedisStoreOptions } from '../../../src/stores/redis/index.ts'

const { signal } = new AbortController()
const call = { signal, timeoutMs: 5_000 }
const key = 'tenure:{payments}:lease'

function claimOf(change: Partial<AcquireClaim> = {}): AcquireClaim {
  const claim = { election: 'payments', holder: 'ada', attempt: 'first', leaseDurationMs: 15_000, afterTerm: 0 }
  return { ...claim, metadata: {}, ...change }
}

function recordOf(outcome: Outcome): LeaseRecord {
  if (!outcome.ok) throw new Error(`the call was refused: ${JSON.stringify(outcome)}`)
  return outcome.record
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

async function opened(url: string, environment: Record<string, string> = {}) {
  const store = await openStore(url, { environment })
  onTestFinished(() => store.close?.())
  return store
}

async function started(settings: Record<string, string | number>): Promise<RunningServer> {
  const server = await start(redisWith(settings))
  onTestFinished(() => server.stop())
  return server
}

describeWith(redis, 'redisStore on misconfigured or failing servers', (server) => {
  let admin: Redis
  beforeAll(() => {
    admin = new Redis(server().url)
    admin.on('error', () => {})
  })
  afterAll(() => admin.disconnect())
  /** How many scripts have run. */
  const scripts = async () => Number(/cmdstat_evalsha:calls=(\d+)/.exec(await admin.info('commandstats'))?.[1] ?? 0)
  const fresh = async () => {
    await admin.flushall()
    return open({ client: clientAt(server().url) })
  }

  test('the store reports a wrong password, and accepts the right one from every source', async () => {
    const { port, directory } = await started({ requirepass: 'right' })
    const file = join(directory, 'password')
    writeFileSync(file, 'right\n')
    const wrong = { code: 'UNAUTHORIZED', message: expect.stringContaining('password') }
    for (const url of [`redis://:wrong@127.0.0.1:${port}`, `redis://127.0.0.1:${port}`]) {
      const store = await opened(url)
      await expect(store.read('payments', call)).rejects.toMatchObject(wrong)
    }
    const url = `redis://127.0.0.1:${port}`
    for (const store of [
      await opened(`redis://:right@127.0.0.1:${port}`),
      await opened(url, { TENURE_STORE_PASSWORD: 'right' }),
      await opened(url, { TENURE_STORE_USER: 'default', TENURE_STORE_PASSWORD_FILE: file }),
      open({ connect: async () => new Redis(url, { password: await Promise.resolve('right'), lazyConnect: true }) }),
      open({ connect: () => createClient({ url, password: 'right' }) }),
    ]) {
      expect(await store.read('payments', call)).toBeUndefined()
    }
    for (const client of [
      new Redis(url, { password: 'wrong', lazyConnect: true }),
      createClient({ url, password: 'wrong' }),
    ]) {
      await expect(open({ client }).read('payments', call)).rejects.toMatchObject(wrong)
    }
  })

  test('the next connection uses a password that was replaced', async () => {
    const { port } = await started({ requirepass: 'old' })
    let password = 'old'
    const store = open({ connect: () => new Redis({ port, password, lazyConnect: true }) })
    const record = recordOf(await store.acquire(claimOf(), call))
    const own = clientAt(`redis://:old@127.0.0.1:${port}`)
    await own.config('SET', 'requirepass', 'new')
    password = 'new'
    await own.call('CLIENT', 'KILL', 'TYPE', 'normal')
    await vi.waitFor(async () => expect(await store.read('payments', call)).toEqual(record), 20_000)
  })

  test('the store refuses a replica, even for reads', async () => {
    const { port } = await started({ replicaof: `127.0.0.1 ${server().port}` })
    const replica = clientAt(`redis://127.0.0.1:${port}`)
    await vi.waitFor(async () => expect(await replica.info('replication')).toContain('master_link_status:up'), 20_000)
    const store = open({ client: replica })
    const isReplica = {
      code: 'BACKEND_UNAVAILABLE',
      retryable: true,
      message: expect.stringContaining('is a replica. Connect to the primary'),
    }
    await expect(store.read('payments', call)).rejects.toMatchObject(isReplica)
    await expect(store.acquire(claimOf(), call)).rejects.toMatchObject(isReplica)
    await replica.replicaof('NO', 'ONE')
    expect(recordOf(await store.acquire(claimOf({ election: 'promoted' }), call)).term).toBe(1)
  })

  test('nothing is granted or partly written when Redis is out of memory, and reads still succeed', async () => {
    const { url } = await started({ 'maxmemory-policy': 'noeviction' })
    const filler = clientAt(url)
    const store = open({ client: clientAt(url) })
    const record = recordOf(await store.acquire(claimOf(), call))
    await filler.config('SET', 'maxmemory', '1')
    const full = {
      code: 'BACKEND_UNAVAILABLE',
      retryable: true,
      message: expect.stringContaining('Redis has reached maxmemory'),
    }
    await expect(store.renew(held(record), call)).rejects.toMatchObject(full)
    await expect(store.acquire(claimOf({ election: 'other' }), call)).rejects.toMatchObject(full)
    expect(await filler.keys('*other*')).toEqual([])
    expect(await store.read('payments', call)).toEqual(record)
    await filler.config('SET', 'maxmemory', '0')
    recordOf(await store.renew(held(record), call))
  })

  test('the store refuses a server that would evict its keys, before anything is stored there', async () => {
    for (const policy of ['allkeys-lru', 'allkeys-lfu', 'allkeys-random']) {
      const { url } = await started({ 'maxmemory-policy': policy })
      const store = open({ client: clientAt(url) })
      const refused = { code: 'UNSAFE_SETTINGS', retryable: false, message: expect.stringContaining(policy) }
      await expect(store.acquire(claimOf(), call)).rejects.toMatchObject(refused)
      expect(await clientAt(url).dbsize()).toBe(0)
    }
    // This policy evicts only keys with an expiry, and the store's keys have none.
    const { url } = await started({ 'maxmemory-policy': 'volatile-lru' })
    recordOf(await open({ client: clientAt(url) }).acquire(claimOf(), call))
    expect(await clientAt(url).ttl(key)).toBe(-1)
    expect(await clientAt(url).ttl('tenure:{payments}:term')).toBe(-1)
  })

  test('the store notices within a minute that a server was set to evict its keys', async () => {
    const { url } = await started({})
    let aheadMs = 0
    const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + aheadMs }
    const store = open({ client: clientAt(url), clock })
    const record = recordOf(await store.acquire(claimOf(), call))
    await clientAt(url).config('SET', 'maxmemory-policy', 'allkeys-lru')
    aheadMs = 60_000
    const refused = { code: 'UNSAFE_SETTINGS', message: expect.stringContaining('allkeys-lru') }
    await expect(store.renew(held(record), call)).rejects.toMatchObject(refused)
    await clientAt(url).config('SET', 'maxmemory-policy', 'noeviction')
    recordOf(await store.renew(held(record), call))
  })

  test.each(['get', 'mset', 'persist', 'eval'])('the store reports that its user may not run "%s"', async (command) => {
    const { url } = await started({ user: `few on >secret ~* &* +@all -${command}` })
    await clientAt(url).script('FLUSH')
    const store = open({ client: clientAt(url.replace('//', '//few:secret@')) })
    const narrow = { code: 'UNAUTHORIZED', retryable: false, message: expect.stringContaining('lacks a permission') }
    const verb = command === 'mset' ? store.acquire(claimOf(), call) : store.read('payments', call)
    await expect(verb).rejects.toMatchObject(narrow)
  })

  test('the documented permissions are sufficient, and equal those in the error', async () => {
    const page = readFileSync(join(import.meta.dirname, '../../../../../docs/stores/redis.md'), 'utf8')
    const rights = /^ACL SETUSER worker on >secret (.*)$/m.exec(page)?.[1]
    expect(rights).toBe(requiredAclRules)
    await admin.flushall()
    await admin.call('ACL', 'SETUSER', 'worker', 'on', '>secret', ...requiredAclRules.split(' '))
    const store = open({ client: clientAt(`${server().url.replace('//', '//worker:secret@')}/1`) })
    const record = recordOf(await store.acquire(claimOf(), call))
    const changes = store.watch?.('payments', { signal })[Symbol.asyncIterator]()
    expect((await changes?.next())?.value).toEqual(record)
    await changes?.return?.()
    expect(await store.list?.({}, call)).toEqual({ records: [record] })
    expect(await store.inspect(call)).toEqual([])
    recordOf(await store.release(held(record), call))
    const message = expect.stringContaining(requiredAclRules)
    await admin.call('ACL', 'SETUSER', 'worker', '-mset')
    await expect(store.acquire(claimOf({ attempt: 'next', afterTerm: 1 }), call)).rejects.toMatchObject({ message })
  })

  describe.each<[string, (url: string) => RedisClient]>([
    ['ioredis 6', (url) => new Redis(url, { lazyConnect: true })],
    ['ioredis 5', (url) => new Redis5(url, { lazyConnect: true })],
    ['redis 6', (url) => createClient({ url })],
    ['redis 5', (url) => createClient5({ url })],
    ['redis 4', (url) => createClient4({ url })],
  ])('a refused database with %s', (_, clientOf) => {
    /** The store must not fall back to another database, because candidates in two databases would all lead. */
    const isRefused = async (url: string, refusal: object) => {
      await admin.flushall()
      const connect = () => clientOf(url)
      for (const store of [open({ client: clientOf(url) }), open({ connect })]) {
        await expect(store.acquire(claimOf(), call)).rejects.toMatchObject(refusal)
        await expect(store.inspect(call)).rejects.toMatchObject(refusal)
      }
      expect(await admin.info('keyspace')).not.toContain('db')
    }

    test('the store refuses a database number that does not exist', async () => {
      const message = expect.stringMatching(/never falls back to another database.*DB index is out of range/s)
      await isRefused(`${server().url}/99`, { code: 'BACKEND_UNAVAILABLE', retryable: false, message })
    })

    test('the store refuses a database that the user may not select', async () => {
      await admin.call('ACL', 'SETUSER', 'still', 'on', '>secret', '~*', '&*', '+@all', '-select')
      const url = server().url.replace('//', '//still:secret@')
      const message = expect.stringMatching(/\+select/)
      await isRefused(`${url}/1`, { code: 'UNAUTHORIZED', retryable: false, message })
      // Database 0 needs no SELECT.
      recordOf(await open({ client: clientOf(`${url}/0`) }).acquire(claimOf(), call))
    })
  })

  test('the store refuses the database of a URL and stores nothing in another one', async () => {
    await admin.flushall()
    const store = await opened(`${server().url}/99`)
    await expect(store.acquire(claimOf(), call)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(await admin.info('keyspace')).not.toContain('db')
  })

  test('the store uses the database that a connected client has selected', async () => {
    await admin.flushall()
    const connect = async () => {
      const client = clientAt(`${server().url}/1`)
      await client.select(2)
      return client
    }
    recordOf(await open({ connect }).acquire(claimOf(), call))
    expect(await admin.info('keyspace')).toMatch(/^db2:/m)
  })

  test('the store warns once about a server that does not reveal its settings', async () => {
    await admin.call('ACL', 'SETUSER', 'narrow', 'on', '>secret', '~*', '&*', '+@all', '-info', '-config')
    const warnings: Error[] = []
    const note = (warning: Error) => void warnings.push(warning)
    process.on('warning', note)
    onTestFinished(() => void process.off('warning', note))
    const url = server().url.replace('//', '//narrow:secret@')
    // ioredis itself would call INFO.
    for (const election of ['one', 'two']) {
      const store = open({ client: createClient({ url }) })
      recordOf(await store.acquire(claimOf({ election }), call))
    }
    await vi.waitFor(() => expect(warnings).toHaveLength(1), 10_000)
    expect(warnings[0]).toMatchObject({
      code: 'UNSAFE_SETTINGS',
      message: expect.stringContaining('does not reveal its settings'),
    })
  })

  test('the store refuses a server that is too old', async () => {
    // A real server whose reported version is changed in transit.
    const old = createServer((client) => {
      const upstream = connect(server().port, '127.0.0.1')
      client.pipe(upstream)
      upstream.on('data', (chunk) =>
        client.write(Buffer.from(chunk.toString('latin1').replace(/redis_version:\d/, 'redis_version:5'), 'latin1')),
      )
      for (const socket of [client, upstream]) socket.on('error', () => {}).on('close', () => client.destroy())
    }).listen(0, '127.0.0.1')
    await once(old, 'listening')
    onTestFinished(() => void old.close())
    const store = open({ client: clientAt(`redis://127.0.0.1:${(old.address() as AddressInfo).port}`) })
    await expect(store.acquire(claimOf(), call)).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      retryable: false,
      message: expect.stringMatching(/needs Redis 6 or newer, but this server reports version 5\./),
    })
  })

  test.each(['lease', 'term'])(
    'the store rejects a %s key that another program created, and does not change it',
    async (kind) => {
      const store = await fresh()
      const taken = `tenure:{payments}:${kind}`
      await admin.rpush(taken, 'a job')
      const foreign = { code: 'RECORD_INVALID', message: expect.stringContaining('belongs to another program') }
      await expect(store.read('payments', call)).rejects.toMatchObject(foreign)
      await expect(store.acquire(claimOf(), call)).rejects.toMatchObject(foreign)
      expect(await admin.lrange(taken, 0, -1)).toEqual(['a job'])
      expect(await admin.dbsize()).toBe(1)
    },
  )

  test.each([
    ['lease', ''],
    ['lease', ' '],
    ['lease', 'a text of somebody else'],
    ['lease', '1-x {"format":1}'],
    ['lease', '1-x {"format":9}'],
    ['term', ''],
    ['term', '1'],
    ['term', '1 0 15000'],
    ['term', 'a b c'],
  ])('the store refuses an invalid %s: "%s"', async (kind, value) => {
    const store = await fresh()
    await admin.set(`tenure:{payments}:${kind}`, value)
    const damaged = { code: 'RECORD_INVALID', message: expect.stringContaining(`"${key}"`) }
    await expect(store.read('payments', call)).rejects.toMatchObject(damaged)
    await expect(store.acquire(claimOf(), call)).rejects.toMatchObject(damaged)
    expect(await admin.get(`tenure:{payments}:${kind}`)).toBe(value)
    expect((await store.list?.({}, call))?.problems ?? []).toHaveLength(kind === 'lease' ? 1 : 0)
  })

  test('list skips the keys of another application that shares the prefix', async () => {
    const store = await fresh()
    await admin.mset({ 'tenure:queue': '1', 'tenure:{payments}': '2', 'tenure:{%}:lease': '3', 'other{a}:lease': '4' })
    const record = recordOf(await store.acquire(claimOf(), call))
    expect(await store.list?.({}, call)).toEqual({ records: [record] })
    const braces = open({ client: clientAt(server().url), prefix: 'a*[b]?' })
    const own = recordOf(await braces.acquire(claimOf({ election: '{a}b}' }), call))
    expect(await braces.list?.({}, call)).toEqual({ records: [own] })
    expect(() => redisStore({ client: admin, prefix: '{app}:' })).toThrow(/"prefix"/)
  })

  test('the store also applies the key prefix of the client', async () => {
    await admin.flushall()
    const client = new Redis(server().url, { keyPrefix: 'app:', lazyConnect: true })
    const store = open({ client })
    const changes = store.watch?.('payments', { signal })[Symbol.asyncIterator]()
    await changes?.next()
    const record = recordOf(await open({ client }).acquire(claimOf(), call))
    expect(await changes?.next()).toEqual({ done: false, value: record })
    await changes?.return?.()
    expect(await admin.exists(`app:${key}`)).toBe(1)
    expect(await store.list?.({}, call)).toEqual({ records: [record] })
  })

  test('renew succeeds after Redis has lost the scripts', async () => {
    const store = await fresh()
    const record = recordOf(await store.acquire(claimOf(), call))
    await admin.script('FLUSH')
    recordOf(await store.renew(held(record), call))
  })

  test('emptying Redis ends the term, reuses no version, and makes candidates that saw the term wait', async () => {
    const leader = await fresh()
    const record = recordOf(await leader.acquire(claimOf(), call))
    await admin.flushall()
    expect(await leader.renew(held(record), call)).toEqual({ ok: false, highestTerm: 0 })
    const seen = { attempt: 'next', afterTerm: record.term }
    expect(await leader.acquire(claimOf(seen), call)).toMatchObject({ ok: false })
    const next = recordOf(await leader.acquire(claimOf({ ...seen, expiredVersion: absentVersion }), call))
    expect(next.term).toBe(2)
    // The count that is part of the version restarts.
    expect(next.version.split('-')[0]).toBe(record.version.split('-')[0])
    expect(next.version).not.toBe(record.version)
  })

  test('a first grant, a renewal, a release and a refusal take one round trip each', async () => {
    const store = await fresh()
    const other = open({ client: clientAt(server().url) })
    await store.read('other', call)
    await other.read('other', call)
    const counted = async <T>(verb: () => Promise<T>): Promise<T> => {
      const before = await scripts()
      const answer = await verb()
      expect((await scripts()) - before).toBe(1)
      return answer
    }
    const record = recordOf(await counted(() => store.acquire(claimOf(), call)))
    expect(await counted(() => other.acquire(claimOf({ attempt: 'other' }), call))).toMatchObject({ ok: false, record })
    const renewed = recordOf(await counted(() => store.renew(held(record), call)))
    recordOf(await counted(() => store.release(held(renewed), call)))
  })

  test('a watch sends nothing while the leader renews, because messages contain the record', async () => {
    const leader = await fresh()
    const standby = open({ client: clientAt(server().url) })
    let record = recordOf(await leader.acquire(claimOf(), call))
    const changes = standby.watch?.('payments', { signal })[Symbol.asyncIterator]()
    await changes?.next()
    const before = await scripts()
    for (let renewals = 0; renewals < 5; renewals++) {
      record = recordOf(await leader.renew(held(record), call))
      expect((await changes?.next())?.value).toEqual(record)
    }
    expect((await scripts()) - before).toBe(5)
    await changes?.return?.()
  })

  test('a watch that gets no messages reads the state on a new connection and ends', async () => {
    await admin.flushall()
    const proxy = await startProxy(server().port)
    onTestFinished(() => proxy.stop())
    const watcher = open({ client: clientAt(`redis://127.0.0.1:${proxy.port}`) })
    const leader = open({ client: clientAt(server().url) })
    const first = recordOf(await leader.acquire(claimOf({ leaseDurationMs: 400 }), call))
    const changes = watcher.watch?.('payments', { signal })[Symbol.asyncIterator]()
    expect((await changes?.next())?.value).toEqual(first)
    const openedBefore = proxy.opened
    // Both connections stay open, but nothing arrives anymore.
    proxy.freezeExisting('to-client')
    await expect(watcher.read('payments', { signal, timeoutMs: 50 })).rejects.toMatchObject({ code: 'TIMEOUT' })
    const renewed = recordOf(await leader.renew(held(first), call))
    expect((await changes?.next())?.value).toEqual(renewed)
    expect((await changes?.next())?.done).toBe(true)
    expect(proxy.opened).toBeGreaterThan(openedBefore)
  })

  test.each<[string, (port: number) => RedisClient]>([
    ['ioredis', (port) => new Redis({ port, lazyConnect: true })],
    ['redis', (port) => createClient({ socket: { port } })],
  ])('%s never sends a call that was abandoned while the server was away', async (_, clientOf) => {
    const own = await started({})
    const proxy = await startProxy(own.port)
    onTestFinished(() => proxy.stop())
    const store = open({ client: clientOf(proxy.port) })
    await store.read('other', call)
    const giveUp = async (attempt: string) =>
      expect(store.acquire(claimOf({ attempt }), { signal, timeoutMs: 100 })).rejects.toMatchObject({ retryable: true })

    // At first, nothing that the client sends arrives. Later, its connections are refused.
    proxy.set('hold', 'to-server')
    await giveUp('held')
    proxy.reset()
    proxy.refuse()
    await giveUp('refused')
    await own.kill('SIGKILL')
    await giveUp('down')
    await own.start()
    proxy.set('pass')
    await proxy.accept()
    // A client that reconnects by itself does so within this time.
    await delay(300)
    expect(await store.read('payments', call)).toBeUndefined()
    expect(await clientAt(own.url).exists('tenure:{payments}:term')).toBe(0)
  })

  test('inspect reports unsafe persistence settings', async () => {
    const found = async (settings: Record<string, string | number>) => {
      const { url } = await started(settings)
      const store = open({ client: clientAt(url) })
      return (await store.inspect(call)).map(({ risk, text }) => `${risk} ${text.split(':')[0]}`)
    }
    expect(await found({})).toEqual([])
    expect(await found({ appendonly: 'no' })).toEqual(['unsafe appendonly is off'])
    expect(await found({ appendfsync: 'everysec' })).toEqual(['tight appendfsync is everysec'])
  })
})

describeWithPrograms([programs.redis], 'redisStore with replicas', () => {
  let primary: RunningServer
  let replica: RunningServer
  beforeAll(async () => {
    primary = await start(redis)
    replica = await start(redisWith({ replicaof: `127.0.0.1 ${primary.port}` }))
    const client = new Redis(primary.url)
    await vi.waitFor(async () => expect(await client.info('replication')).toMatch(/slave0:.*state=online/), 20_000)
    client.disconnect()
  })
  afterAll(() => Promise.all([primary.stop(), replica.stop()]))

  test('inspect reports replicas that the store does not wait for', async () => {
    const client = clientAt(primary.url)
    const texts = async (waitForReplicas: number) =>
      (await open({ client, waitForReplicas }).inspect(call)).map(({ risk, text }) => `${risk} ${text.split(':')[0]}`)
    expect(await texts(0)).toEqual(['unsafe Its replicas (1) are asynchronous'])
    expect(await texts(1)).toEqual([])
  })

  test.each<[string, () => RedisClient]>([
    ['ioredis', () => clientAt(primary.url)],
    ['redis', () => createClient({ url: primary.url })],
  ])('nothing is granted before the replica has it, with %s', async (name, clientOf) => {
    const election = `waits with ${name}`
    const store = open({ client: clientOf(), waitForReplicas: 1 })
    await store.read(election, call)
    replica.pause()
    onTestFinished(() => replica.resume())
    const short = { signal, timeoutMs: 1_000 }
    const few = {
      code: 'BACKEND_UNAVAILABLE',
      retryable: true,
      message: expect.stringContaining('Only 0 of 1 replicas'),
    }
    await expect(store.acquire(claimOf({ election }), short)).rejects.toMatchObject(few)
    // The grant is written, but neither a repeated attempt nor a read shows it before the replica has it.
    await expect(store.acquire(claimOf({ election }), short)).rejects.toMatchObject(few)
    await expect(store.read(election, short)).rejects.toMatchObject(few)
    // Neither does a read on another connection, which has written nothing.
    const other = open({ client: clientOf(), waitForReplicas: 1 })
    await expect(other.read(election, short)).rejects.toMatchObject(few)
    replica.resume()
    const record = recordOf(await store.acquire(claimOf({ election }), call))
    expect(await clientAt(replica.url).get(`tenure:{${encodeURIComponent(election)}}:lease`)).toContain(record.version)
  })

  test('waitForReplicas is refused for a cluster', () => {
    const client = new Cluster([], { lazyConnect: true })
    expect(() => redisStore({ client, waitForReplicas: 1 })).toThrow(/min-replicas-to-write/)
  })
})

describeWithPrograms([programs.redis], 'redisStore through Sentinel', () => {
  const ways: Record<string, (port: number) => RedisStoreOptions> = {
    ioredis: (port) => ({
      client: new Redis({ sentinels: [{ host: '127.0.0.1', port }], name: 'mymaster', lazyConnect: true }),
    }),
    'redis 6': (port) => ({
      client: createSentinel({ name: 'mymaster', sentinelRootNodes: [{ host: '127.0.0.1', port }] }),
    }),
    'redis 5': (port) => ({
      connect: () => createSentinel5({ name: 'mymaster', sentinelRootNodes: [{ host: '127.0.0.1', port }] }),
    }),
  }

  test(
    'the store continues on the new primary after a failover, with the data of the replica',
    { timeout: 60_000 },
    async () => {
      const primary = await started({})
      const replica = await started({ replicaof: `127.0.0.1 ${primary.port}` })
      const sentinel = await start(sentinelFor(primary.port))
      onTestFinished(() => sentinel.stop())
      const asked = clientAt(`redis://127.0.0.1:${sentinel.port}`)
      await vi.waitFor(async () => expect(await asked.call('SENTINEL', 'replicas', 'mymaster')).toHaveLength(1), 20_000)

      const stores = new Map<string, LeaseStore>(
        Object.entries(ways).map(([name, options]) => [name, open(options(sentinel.port))]),
      )
      stores.set('a URL', await opened(sentinel.url))
      const records = new Map<string, LeaseRecord>()
      for (const [name, store] of stores) {
        records.set(name, recordOf(await store.acquire(claimOf({ election: name }), call)))
      }
      const copied = clientAt(replica.url)
      await vi.waitFor(async () => expect(await copied.keys('*:lease')).toHaveLength(stores.size), 20_000)
      await primary.kill('SIGKILL')
      await vi.waitFor(async () => expect(await copied.info('replication')).toContain('role:master'), 20_000)
      for (const [name, store] of stores) {
        const record = records.get(name)
        await vi.waitFor(async () => expect(await store.read(name, { signal, timeoutMs: 1_000 })).toEqual(record), {
          timeout: 20_000,
          interval: 50,
        })
        if (record) recordOf(await store.renew(held(record), call))
      }
    },
  )
})

describeWithPrograms([programs.redis], 'redisStore through sentinels with their own password', () => {
  test('the store takes the sentinel password from URL, environment or file, and reports a wrong or missing one', async () => {
    const primary = await started({ requirepass: 'right' })
    const own = ['requirepass asked', 'sentinel auth-pass mymaster right']
    const sentinel = await start(sentinelFor(primary.port, own))
    onTestFinished(() => sentinel.stop())
    const file = join(primary.directory, 'password')
    writeFileSync(file, 'asked\n')
    const url = sentinel.url.replace('//', '//:right@')
    for (const store of [
      await opened(`${url}&sentinelPassword=asked`),
      await opened(`${url}&sentinelUser=default`, { TENURE_SENTINEL_PASSWORD: 'asked' }),
      await opened(url, { TENURE_SENTINEL_USER: 'default', TENURE_SENTINEL_PASSWORD_FILE: file }),
    ]) {
      expect(await store.read('payments', call)).toBeUndefined()
    }
    const wrong = { code: 'UNAUTHORIZED', retryable: false, message: expect.stringContaining('sentinelPassword') }
    for (const store of [await opened(url), await opened(`${url}&sentinelPassword=wrong`)]) {
      await expect(store.read('payments', call)).rejects.toMatchObject(wrong)
    }
    await expect(openStore('redis://127.0.0.1?sentinelPassword=a')).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })

  test('the store refuses a database that does not exist, without storing anything', async () => {
    const primary = await started({})
    const sentinel = await start(sentinelFor(primary.port))
    onTestFinished(() => sentinel.stop())
    const sentinelRootNodes = [{ host: '127.0.0.1', port: sentinel.port }]
    const options = { name: 'mymaster', sentinelRootNodes, nodeClientOptions: { database: 99 } }
    for (const store of [
      await opened(sentinel.url.replace('?', '/99?')),
      open({ client: createSentinel(options) }),
      open({ connect: () => createSentinel5(options) }),
    ]) {
      await expect(store.acquire(claimOf(), { signal, timeoutMs: 1_000 })).rejects.toMatchObject({
        name: 'TenureError',
      })
    }
    expect(await clientAt(primary.url).dbsize()).toBe(0)
  })
})

describeWithPrograms([programs.redis], 'redisStore on a cluster', () => {
  const servers: RunningServer[] = []
  beforeAll(async () => {
    const kind = redisWith({ 'cluster-enabled': 'yes', 'cluster-node-timeout': 1_000 })
    servers.push(...(await Promise.all([start(kind), start(kind), start(kind)])))
    const addresses = servers.map(({ port }) => `127.0.0.1:${port}`)
    execFileSync('redis-cli', ['--cluster', 'create', ...addresses, '--cluster-yes'], { stdio: 'pipe' })
    for (const { url } of servers) {
      const client = new Redis(url)
      await vi.waitFor(async () => expect(await client.cluster('INFO')).toContain('cluster_state:ok'), 20_000)
      client.disconnect()
    }
  }, 60_000)
  afterAll(() => Promise.all(servers.map((server) => server.stop())))

  const rootNodes = () => servers.map(({ url }) => ({ url }))
  const hosts = () => servers.map(({ port }) => ({ host: '127.0.0.1', port }))
  const clients: Record<string, () => RedisClient> = {
    'ioredis 6': () => new Cluster(hosts(), { lazyConnect: true, scaleReads: 'slave' }),
    'ioredis 5': () => new Cluster5(hosts(), { lazyConnect: true }),
    'redis 6': () => createCluster({ rootNodes: rootNodes() }),
    'redis 5': () => createCluster5({ rootNodes: rootNodes() }),
    'redis 4': () => createCluster4({ rootNodes: rootNodes() }),
  }

  describe.each(Object.entries(clients))('redisStore conforms on a cluster with %s', (name, clientOf) => {
    const prefix = `${name}:`
    const storeOf = () => redisStore({ client: clientOf(), prefix })
    let admin: Cluster
    beforeAll(() => {
      admin = new Cluster(hosts())
    })
    afterAll(() => admin.disconnect())
    const shared: { store?: ReturnType<typeof storeOf> } = {}
    afterAll(() => shared.store?.close?.())
    const cases = storeConformance(
      () => ({
        // The cases share one store, because each store opens many connections.
        store: { ...(shared.store ??= storeOf()), close: async () => {} },
        open: storeOf,
        async remove(election) {
          const removed = `${prefix}{${encodeURIComponent(election)}}:lease`
          await admin.del(removed)
          await admin.publish(removed, '')
        },
      }),
      { leaseDurationMs: 1_000 },
    )
    for (const { name: promise, run } of cases) test.concurrent(promise, run)
  })

  test('openStore opens a cluster, and a client for one server gets advice', async () => {
    const names = servers.map(({ port }) => `127.0.0.1:${port}`).join(',')
    const store = await opened(`redis://${names}?cluster=true&prefix=url:`)
    const elections = ['a', 'b', 'c', 'd', 'e', 'f']
    for (const election of elections) recordOf(await store.acquire(claimOf({ election }), call))
    const { records } = (await store.list?.({}, call)) ?? {}
    expect(records?.length).toBeLessThanOrEqual(elections.length)
    const single = open({ client: clientAt(servers[0]?.url ?? '') })
    const moved = elections.map((election) => single.read(election, call))
    const answers = await Promise.allSettled(moved)
    expect(answers.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { message: expect.stringContaining('This Redis is a cluster') },
    })
  })
})
