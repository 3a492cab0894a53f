import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { serviceStore, type ServiceStoreOptions } from '../../../src/stores/service/index.ts'
import { claim, cluster, fakeService, grant, grantAs, held, json, storeOf } from './fake-service.ts'

const { signal } = new AbortController()
const call = { signal, timeoutMs: 5_000 }
const unavailable = { ok: false, error: 'BACKEND_UNAVAILABLE', message: 'The disk is full.' }

/** An address that refuses connections. */
async function deadUrl(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return `http://127.0.0.1:${port}`
}

/** An address that accepts connections and never answers. */
async function silentUrl(): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    onTestFinished(() => void socket.destroy())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function timed<T>(promise: Promise<T>): Promise<{ value: T; tookMs: number }> {
  const startedMs = performance.now()
  const value = await promise
  return { value, tookMs: performance.now() - startedMs }
}

describe('several addresses', () => {
  test('the next address is used when one is unreachable, and stays first from then on', async () => {
    const service = await fakeService(grant)
    const store = storeOf({ url: [await deadUrl(), service.url] })
    expect(await store.acquire(claim, call)).toMatchObject({ ok: true })
    const { tookMs } = await timed(store.renew(held, call))
    expect(tookMs).toBeLessThan(500)
    expect(service.asked).toHaveLength(2)
  })

  test('an address that hangs uses only its share of the deadline', async () => {
    const service = await fakeService(grant)
    const store = storeOf({ url: [await silentUrl(), service.url] })
    const { value, tookMs } = await timed(store.acquire(claim, { signal, timeoutMs: 1_000 }))
    expect(value).toMatchObject({ ok: true })
    expect(tookMs).toBeGreaterThan(490)
    expect(tookMs).toBeLessThan(950)
    expect((await timed(store.renew(held, call))).tookMs).toBeLessThan(400)
  })

  test('all addresses that hang share one deadline', async () => {
    const store = storeOf({ url: [await silentUrl(), await silentUrl(), await silentUrl()] })
    const { value, tookMs } = await timed(
      store.renew(held, { signal, timeoutMs: 600 }).catch((error: unknown) => error),
    )
    expect(value).toMatchObject({ code: 'TIMEOUT', retryable: true })
    expect(tookMs).toBeGreaterThan(590)
    expect(tookMs).toBeLessThan(1_500)
  })

  test('the next address is used when one answers 503', async () => {
    const [broken, sound] = [await fakeService(json(503, unavailable)), await fakeService(grant)]
    const store = storeOf({ url: [broken.url, sound.url] })
    expect(await store.acquire(claim, call)).toMatchObject({ ok: true })
    expect([broken.asked.length, sound.asked.length]).toEqual([1, 1])
  })

  test.each([
    [401, { ok: false, error: 'UNAUTHORIZED', message: 'Who?' }],
    [400, { ok: false, error: 'INVALID_TTL', message: 'Too short.' }],
    [429, { ok: false, error: 'RATE_LIMITED', message: 'Too often.' }],
  ])('no other address is tried after a %s, because it would answer the same', async (status, body) => {
    const [first, second] = [await fakeService(json(status, body)), await fakeService(grant)]
    const store = storeOf({ url: [first.url, second.url] })
    await expect(store.acquire(claim, call)).rejects.toMatchObject({ status })
    expect(second.asked).toEqual([])
  })

  test('an aborted call tries no other address', async () => {
    const service = await fakeService(grant)
    const caller = new AbortController()
    const store = storeOf({ url: [await silentUrl(), service.url] })
    const asked = store.acquire(claim, { signal: caller.signal, timeoutMs: 5_000 })
    caller.abort(new Error('enough'))
    await expect(asked).rejects.toThrow('enough')
    expect(service.asked).toEqual([])
  })

  test('a duplicate address is tried only once', async () => {
    const service = await fakeService(json(503, unavailable))
    await expect(storeOf({ url: [service.url, `${service.url}/`] }).read('report', call)).rejects.toThrow(
      'disk is full',
    )
    expect(service.asked).toHaveLength(1)
  })
})

describe('an address of another cluster', () => {
  const strange = { 'tenure-cluster-id': 'cluster-two' }

  test('an answer from another cluster at the second address is rejected, and the first address is tried again', async () => {
    const right = await fakeService(grant)
    const wrong = await fakeService(grantAs(strange))
    const store = storeOf({ url: [right.url, wrong.url] })
    expect(await store.acquire(claim, call)).toMatchObject({ ok: true })
    right.answer = json(503, unavailable)
    const asks = [() => store.renew(held, call), () => store.read('report', call), () => store.acquire(claim, call)]
    for (const ask of asks) {
      const error = await ask().catch((reason: unknown) => reason)
      expect(error).toMatchObject({ code: 'WRONG_CLUSTER', retryable: false })
      expect((error as Error).message).toContain(`${wrong.url} keeps the data of cluster "cluster-two"`)
    }
    right.answer = grant
    expect(await store.renew(held, call)).toMatchObject({ ok: true })
  })

  test('each call sends the expected cluster id, so that another cluster can refuse it', async () => {
    const service = await fakeService(grant)
    const store = storeOf({ url: service.url })
    await store.read('report', call)
    await store.acquire(claim, call)
    const told = service.asked.map(({ headers }) => headers['tenure-cluster-id'])
    expect(told).toEqual([undefined, 'cluster-one'])
  })

  test.each([
    [200, { leader: null, highest_term: 99 }],
    [409, { ok: false, error: 'NOT_LEADER', message: 'no', current_leader: null, highest_term: 99 }],
    [400, { ok: false, error: 'INVALID_REQUEST', message: 'no' }],
    [401, { ok: false, error: 'UNAUTHORIZED', message: 'no' }],
  ])(
    'an answer from another cluster at the same address is rejected, even if its status is %s',
    async (status, body) => {
      const service = await fakeService(grant)
      const store = storeOf({ url: service.url })
      await store.read('report', call)
      service.answer = json(status, body, strange)
      await expect(store.renew(held, call)).rejects.toMatchObject({ code: 'WRONG_CLUSTER' })
    },
  )

  test('an error response does not set the expected cluster id, because any proxy may send one', async () => {
    const service = await fakeService(json(503, unavailable, strange))
    const store = storeOf({ url: service.url })
    await expect(store.read('report', call)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    service.answer = grant
    expect(await store.read('report', call)).toMatchObject({ term: 7 })
  })
})

describe('connections', () => {
  test('connections are reused', async () => {
    const service = await fakeService(grant)
    const store = storeOf({ url: service.url })
    for (let turn = 0; turn < 5; turn++) await store.renew(held, call)
    expect(service.opened).toBe(1)
  })

  test('a connection that the service has closed does not fail the next call', async () => {
    const service = await fakeService(grant)
    const store = storeOf({ url: service.url })
    await store.acquire(claim, call)
    service.drop()
    expect(await store.renew(held, call)).toMatchObject({ ok: true })
    expect(service.opened).toBe(2)
  })
})

describe('credentials', () => {
  test('the token function is called before each call', async () => {
    const service = await fakeService(grant)
    const tokens = ['one', 'two\n']
    const store = storeOf({ url: service.url, token: async () => tokens.shift() ?? '' })
    await store.read('report', call)
    await store.read('report', call)
    expect(service.asked.map(({ headers }) => headers.authorization)).toEqual(['Bearer one', 'Bearer two'])
  })

  test.each<[string, ServiceStoreOptions['token']]>([
    ['throws', () => Promise.reject(new Error('the vault is sealed'))],
    ['returns an empty string', () => ''],
    ['returns text that is invalid in a header', () => 'secret\r\nx: y'],
  ])('nothing is sent when the token function %s', async (_what, token) => {
    const service = await fakeService(grant)
    const asked = storeOf({ url: service.url, token }).read('report', call)
    const error = (await asked.catch((reason: unknown) => reason)) as Error
    expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: true })
    expect(error.message).not.toContain('secret')
    expect(error.message).toContain('"token"')
    expect(service.asked).toEqual([])
  })

  test('a token function that never resolves ends at the deadline', async () => {
    const store = storeOf({ url: 'http://127.0.0.1:1', token: () => new Promise(() => undefined) })
    await expect(store.read('report', { signal, timeoutMs: 50 })).rejects.toMatchObject({ code: 'TIMEOUT' })
  })
})

describe('options of serviceStore', () => {
  const pem = '-----BEGIN CERTIFICATE-----'
  test.each<[string, unknown, RegExp]>([
    ['undefined options', undefined, /"options"/],
    ['a missing URL', {}, /"url"/],
    ['an empty list', { url: [] }, /at least one/],
    ['text that is not a URL', { url: 'elections' }, /http: or https:/],
    ['another scheme', { url: 'ftp://elections' }, /http: or https:/],
    ['a query', { url: 'https://elections?token=x' }, /query or fragment/],
    ['a fragment', { url: 'https://elections#x' }, /query or fragment/],
    ['a misspelled option', { url: 'https://elections', tokn: 'secret' }, /no option "tokn"\. Did you mean "token"\?$/],
    ['an empty token', { url: 'https://elections', token: '' }, /"token"/],
    ['a token that is not text', { url: 'https://elections', token: 5 }, /"token"/],
    ['a token in the clear', { url: 'http://elections', token: 'secret' }, /unencrypted/],
    ['one address of two in the clear', { url: ['https://a', 'http://b'], token: 'secret' }, /unencrypted/],
    ['a certificate without its key', { url: 'https://elections', cert: pem }, /"key"/],
    ['a key without its certificate', { url: 'https://elections', key: 'secret' }, /"cert"/],
    ['a certificate in the clear', { url: 'http://127.0.0.1', cert: pem, key: 'secret' }, /https:/],
    ['an invalid clock', { url: 'https://elections', clock: {} }, /"clock"/],
  ])('serviceStore rejects %s', (_what, options, message) => {
    const open = () => serviceStore(options as ServiceStoreOptions)
    expect(open).toThrow(TypeError)
    expect(open).toThrow(message)
    expect(open).not.toThrow(/secret/)
  })

  test.each(['https://user:password@elections', 'https://:password@elections'])(
    'serviceStore rejects %s without showing the password',
    (url) => {
      expect(() => serviceStore({ url })).toThrow(/"elections".*must not contain a password/)
      expect(() => serviceStore({ url })).not.toThrow(/user|:password/)
    },
  )

  test.each(['http://localhost:7070', 'http://127.0.0.1:7070', 'http://127.1.2.3', 'http://[::1]:7070'])(
    'serviceStore accepts a token for %s, which is this machine',
    (url) => {
      expect(serviceStore({ url, token: 'secret' })).toMatchObject({ expiry: 'own-clock', terms: true })
    },
  )

  test.each(['http://127.0.0.1.example.com', 'http://localhost.example.com', 'http://10.0.0.1', 'http://[fe80::1]'])(
    'serviceStore rejects a token for %s, which is not this machine',
    (url) => {
      expect(() => serviceStore({ url, token: 'secret' })).toThrow(/unencrypted/)
    },
  )
})

test('election names that a group cannot have are hashed', async () => {
  const service = await fakeService(json(200, { leader: null, highest_term: 0 }, cluster))
  const store = storeOf({ url: service.url })
  for (const election of ['a.b:c@d-e_f', 'with blanks', '../../secrets', 'ü']) await store.read(election, call)
  const paths = service.asked.map(({ line }) => line.split('/')[3])
  expect(paths[0]).toBe('a.b%3Ac%40d-e_f')
  for (const path of paths.slice(1)) expect(path).toMatch(/^h--[0-9a-f]{64}$/)
  expect(new Set(paths).size).toBe(4)
})
