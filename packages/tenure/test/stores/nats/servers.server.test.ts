/** Wrong credentials, unsuitable buckets, full servers, and connections that fail. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DiscardPolicy, StorageType } from '@nats-io/jetstream'
import { expect, onTestFinished, test } from 'vitest'
import { programs } from '../../../../../test/servers/programs.ts'
import { nats, natsClient, natsConfig, natsWith } from '../../../../../test/servers/nats.ts'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { start, type RunningServer, type ServerKind } from '../../../../../test/servers/server.ts'
import { describeWith, describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { LeaseStore } from '../../../src/engine/lease-store.ts'
import type { InspectableStore } from '../../../src/store-kit/diagnostics.ts'
import { openStore } from '../../../src/stores/index.ts'
import { keyOf } from '../../../src/stores/nats/keys.ts'
import { natsStore } from '../../../src/stores/nats/index.ts'
import { claimOf, granted } from '../cloud/cloud-checks.ts'

const callOf = (timeoutMs = 10_000) => ({ signal: new AbortController().signal, timeoutMs })

/** Returns the code, whether a retry may help, and the text of the error. */
async function failureOf(call: Promise<unknown>) {
  const error = await call.then(
    (answer) => new Error(`the call succeeded: ${JSON.stringify(answer)}`),
    (thrown: unknown) => thrown,
  )
  const { code, retryable, message } = Object(error) as { code?: string; retryable?: boolean; message?: string }
  return { code, retryable, message }
}

async function started(kind = nats): Promise<RunningServer> {
  const server = await start(kind)
  onTestFinished(() => server.stop())
  return server
}

async function opened(url: string, environment: Record<string, string> = {}): Promise<LeaseStore> {
  const store = await openStore(url, { environment })
  onTestFinished(() => store.close?.())
  return store
}

async function clientOf(url: string, options?: object) {
  const client = await natsClient(url, options)
  onTestFinished(() => client.close())
  return client
}

const page = readFileSync(join(import.meta.dirname, '../../../../../docs/stores/nats.md'), 'utf8')
/** The permissions that the page lists. */
const permissions = /^publish: \[.*\]\nsubscribe: \[.*\]$/m.exec(page)?.[0] ?? ''

const users = () => `
  authorization { users: [
    { user: admin, password: right }
    { user: least, password: right, permissions: {
      ${permissions}
    } }
    { user: reader, password: right, permissions: {
      publish: ["$JS.API.STREAM.INFO.KV_leases", "$JS.API.DIRECT.GET.KV_leases"], subscribe: ["_INBOX.>"] } }
  ] }`

describeWith(natsWith(users), 'natsStore with users', (server) => {
  const urlOf = (login: string) => `nats://${login}@127.0.0.1:${server().port}/leases`

  test('a wrong password is refused, and a corrected one works without opening the store again', async () => {
    await (await clientOf(server().url, { user: 'admin', pass: 'right' })).bucket('leases')
    const file = join(server().directory, 'password')
    writeFileSync(file, 'wrong\n')
    const store = await opened(urlOf('admin'), { TENURE_STORE_PASSWORD_FILE: file })
    expect(await failureOf(store.acquire(claimOf(), callOf()))).toMatchObject({
      code: 'UNAUTHORIZED',
      message: expect.stringMatching(/NATS rejected the credentials.*"leases"/),
    })
    writeFileSync(file, 'right\n')
    granted(await store.acquire(claimOf(), callOf()))
  })

  test('the permissions on the page are enough for every call', async () => {
    await (await clientOf(server().url, { user: 'admin', pass: 'right' })).bucket('leases')
    const store = await opened(urlOf('least:right'))
    const { election } = claimOf()
    const record = granted(await store.acquire(claimOf({ election }), callOf()))
    const leaving = new AbortController()
    const states = store.watch?.(election, { signal: leaving.signal })[Symbol.asyncIterator]()
    expect((await states?.next())?.value).toEqual(record)
    const next = states?.next()
    const released = granted(await store.release(held(record), callOf()))
    expect((await next)?.value).toEqual(released)
    leaving.abort()
    expect((await store.list?.({}, callOf()))?.records.map((one) => one.election)).toContain(election)
    expect(await store.forget?.({ election, version: released.version }, callOf())).toEqual({ ok: true })
    // This grant replaces the marker of the deleted value.
    const again = claimOf({ election, afterTerm: record.term, expiredVersion: '' })
    expect(granted(await store.acquire(again, callOf())).term).toBe(record.term + 1)
  })

  test('a user who may not write gets an error that lists the permissions', async () => {
    await (await clientOf(server().url, { user: 'admin', pass: 'right' })).bucket('leases')
    const store = await opened(urlOf('reader:right'))
    for (const call of [store.acquire(claimOf(), callOf()), store.read('payments', callOf())]) {
      expect(await failureOf(call)).toMatchObject({
        code: 'UNAUTHORIZED',
        retryable: false,
        message: expect.stringMatching(/lacks a permission.*\$KV\.BUCKET/),
      })
    }
  })
})

describeWith(nats, 'natsStore with unsuitable buckets', (server) => {
  test('a missing bucket is reported', async () => {
    const store = await opened(`${server().url}/missing`)
    expect(await failureOf(store.acquire(claimOf(), callOf()))).toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      retryable: false,
      message: expect.stringMatching(/The bucket does not exist.*nats kv add/),
    })
  })

  const unsafe = {
    'deletes values after a time': [{ ttl: 60_000 }, {}, /max_age/],
    'is in memory': [{ storage: StorageType.Memory }, {}, /is in memory/],
    'drops its oldest values when it is full': [{ max_bytes: 10_000_000 }, { discard: DiscardPolicy.Old }, /max_bytes/],
    'limits its values and drops the oldest': [{}, { discard: DiscardPolicy.Old, max_msgs: 1_000 }, /max_msgs/],
    'is a copy of another bucket': [{ mirror: { name: 'origin' } }, {}, /is a copy of other buckets/],
    'cannot prove that a read is current': [{ allow_direct: false }, {}, /allow_direct/],
  } as const

  test.for(Object.entries(unsafe))('a bucket that %s is refused', async ([name, [options, config, text]]) => {
    const { bucket, manager } = await clientOf(server().url)
    await bucket('origin')
    const kv = await bucket(name.replaceAll(/\W/g, '-'), options)
    const { config: before } = (await kv.status()).streamInfo
    if (Object.keys(config).length > 0) await manager.streams.update(before.name, { ...before, ...config })
    const store = natsStore({ kv })
    for (const call of [store.acquire(claimOf(), callOf()), store.read('payments', callOf())]) {
      expect(await failureOf(call)).toMatchObject({
        code: 'UNSAFE_SETTINGS',
        retryable: false,
        message: expect.stringMatching(text),
      })
    }
  })

  test('a full bucket refuses writes with an error, and a lease is granted once there is room', async () => {
    const { bucket, manager } = await clientOf(server().url)
    const kv = await bucket('full', { max_bytes: 4_096 })
    await kv.put('other', 'x'.repeat(3_900))
    const store = natsStore({ kv })
    const claim = claimOf()
    const failure = await failureOf(store.acquire(claim, callOf()))
    expect(failure).toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: true })
    expect(failure.message).toMatch(/The bucket is full/)
    await manager.streams.purge('KV_full', { filter: '$KV.full.other' })
    expect(granted(await store.acquire(claim, callOf())).term).toBe(1)
  })

  test('a value of another program is an error that names the key, and is never overwritten', async () => {
    const { bucket } = await clientOf(server().url)
    const kv = await bucket('foreign')
    const claim = claimOf()
    const key = keyOf(claim.election, 'record')
    await kv.put(key, 'not a record')
    const failure = await failureOf(natsStore({ kv }).acquire(claim, callOf()))
    expect(failure).toMatchObject({ code: 'RECORD_INVALID', message: expect.stringContaining(`"${key}"`) })
    expect((await kv.get(key))?.string()).toBe('not a record')
  })

  test('a record that is too large for the bucket is refused, and the next renewal still works', async () => {
    const { bucket } = await clientOf(server().url)
    const store = natsStore({ kv: await bucket('small', { maxValueSize: 1_024 }) })
    const record = granted(await store.acquire(claimOf(), callOf()))
    const large = { ...held(record), checkpoint: 'x'.repeat(4_000) }
    expect(await failureOf(store.renew(large, callOf()))).toMatchObject({ code: 'TOO_LARGE', retryable: false })
    granted(await store.renew(held(record), callOf()))
  })

  test('doctor reports one replica and what the server does not reveal', async () => {
    const { bucket } = await clientOf(server().url)
    const findings = await natsStore({ kv: await bucket('inspected') }).inspect(callOf())
    expect(findings.map(({ risk }) => risk)).toEqual(['tight', 'tight'])
    expect(findings.map(({ text }) => text).join('\n')).toMatch(/one replica[^]*sync_interval/)
  })
})

describeWithPrograms([programs.nats], 'natsStore on servers with special settings', () => {
  test('doctor reads at the monitoring port whether the server writes each change to its disk', async () => {
    for (const [sync, expected] of [
      ['always', []],
      ['"120s"', [expect.stringMatching(/every 120 s \(sync_interval\).*two candidates/)]],
    ] as const) {
      const kind: ServerKind = {
        ...nats,
        secondPort: 1,
        prepare: (place) => {
          const config = natsConfig(place, `http: "127.0.0.1:${place.port + 1}"`, sync)
          writeFileSync(join(place.directory, 'nats.conf'), config)
        },
      }
      const server = await started(kind)
      await (await clientOf(server.url)).bucket('leases')
      const url = `${server.url}/leases?monitor=http://127.0.0.1:${server.port + 1}`
      const findings = await ((await opened(url)) as InspectableStore).inspect(callOf())
      expect(findings.filter(({ risk }) => risk === 'unsafe').map(({ text }) => text)).toEqual(expected)
    }
  })

  test('a server without JetStream is reported', async () => {
    const server = await started({
      ...nats,
      prepare: ({ directory, port }) => writeFileSync(join(directory, 'nats.conf'), `listen: "127.0.0.1:${port}"`),
      probe: async ({ port }) => (await natsClient(`nats://127.0.0.1:${port}`)).close(),
    })
    const store = await opened(`${server.url}/leases`)
    expect(await failureOf(store.acquire(claimOf(), callOf()))).toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: expect.stringMatching(/JetStream/),
    })
  })

  test('a server that is down is an error that a retry may help with, and the store works once it is back', async () => {
    const server = await started()
    await (await clientOf(server.url)).bucket('leases')
    const store = await opened(`${server.url}/leases`)
    const record = granted(await store.acquire(claimOf(), callOf()))
    await server.kill('SIGKILL')
    expect(await failureOf(store.renew(held(record), callOf(2_000)))).toMatchObject({ retryable: true })
    await server.start()
    const renewed = granted(await store.renew(held(record), callOf()))
    expect(renewed.term).toBe(record.term)
  })
})

describeWith(nats, 'natsStore on connections that fail', (server) => {
  async function scene() {
    await (await clientOf(server().url)).bucket('leases')
    const proxy = await startProxy(server().port)
    onTestFinished(() => proxy.stop())
    return { proxy, store: await opened(`nats://127.0.0.1:${proxy.port}/leases`) }
  }

  test('a call on a half-open connection ends at its deadline, and the next call uses a new connection', async () => {
    const { proxy, store } = await scene()
    const record = granted(await store.acquire(claimOf(), callOf()))
    proxy.freezeExisting()
    const before = proxy.opened
    expect(await failureOf(store.renew(held(record), callOf(500)))).toMatchObject({ code: 'TIMEOUT', retryable: true })
    granted(await store.renew(held(record), callOf()))
    expect(proxy.opened).toBe(before + 1)
  })

  test('a half-open connection is closed when its last call ends, so that it does not keep the process alive', async () => {
    const { proxy, store } = await scene()
    const record = granted(await store.acquire(claimOf(), callOf()))
    expect(proxy.open).toBe(1)
    proxy.freezeExisting()
    expect(await failureOf(store.renew(held(record), callOf(500)))).toMatchObject({ code: 'TIMEOUT' })
    // The client itself waits for an answer for 5 s, and for some answers forever.
    await expect.poll(() => proxy.open, { timeout: 3_000 }).toBe(0)
  })

  test('acquire finds its own grant after its answer was lost', async () => {
    const { proxy, store } = await scene()
    await store.read('warm-up', callOf())
    const claim = claimOf()
    proxy.set('blackhole', 'to-client')
    expect(await failureOf(store.acquire(claim, callOf(1_000)))).toMatchObject({ code: 'TIMEOUT' })
    proxy.set('pass', 'to-client')
    proxy.reset()
    expect(granted(await store.acquire(claim, callOf())).term).toBe(1)
  })

  test('a watch that lost its connection shows the change made in the meantime', { timeout: 60_000 }, async () => {
    const { proxy, store } = await scene()
    const direct = await opened(`${server().url}/leases`)
    const record = granted(await direct.acquire(claimOf(), callOf()))
    const leaving = new AbortController()
    onTestFinished(() => leaving.abort())
    const open = () => store.watch?.(record.election, { signal: leaving.signal })[Symbol.asyncIterator]()
    let states = open()
    expect((await states?.next())?.value).toEqual(record)
    proxy.reset()
    const renewed = granted(await direct.renew(held(record), callOf()))
    for (;;) {
      const next = await states?.next().catch(() => undefined)
      if (next?.value?.version === renewed.version) break
      // A watch that ends soon after it began is reopened by the engine.
      if (!next || next.done) states = open()
    }
  })

  test('the connections of a closed store are closed', async () => {
    const { proxy, store } = await scene()
    await store.read('payments', callOf())
    await store.close?.()
    await expect.poll(() => proxy.open, { timeout: 10_000 }).toBe(0)
  })
})
