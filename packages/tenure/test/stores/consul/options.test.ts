import { describe, expect, test } from 'vitest'
import { consulStore, type ConsulStoreOptions } from '../../../src/stores/consul/index.ts'
import { openStore } from '../../../src/stores/index.ts'

describe('options of consulStore', () => {
  const endpoints = 'http://127.0.0.1:8500'
  test.for<[string, unknown]>([
    ['endpoints', {}],
    ['endpoints', { endpoints: [] }],
    ['endpoints', { endpoints: '127.0.0.1:8500' }],
    ['endpoints', { endpoints: 'http://me:hunter2@127.0.0.1' }],
    ['endpoints', { endpoints: 'http://127.0.0.1?token=hunter2' }],
    ['endpoints', { endpoints: ['http://127.0.0.1', 'https://127.0.0.1'] }],
    ['endpoints', { endpoints, ca: 'PEM' }],
    ['prefix', { endpoints, prefix: '/' }],
    ['prefix', { endpoints, prefix: 'a//b' }],
    ['prefix', { endpoints, prefix: 'a/../b' }],
    ['token', { endpoints, token: 'hunter2\n hunter2' }],
    ['token', { endpoints, token: '' }],
    ['key', { endpoints: 'https://127.0.0.1', cert: 'PEM' }],
    ['clock', { endpoints, clock: {} }],
    ['prefx', { endpoints, prefx: 'a' }],
  ])('consulStore refuses an invalid "%s": %j', ([option, options]) => {
    const open = () => consulStore(options as ConsulStoreOptions)
    expect(open).toThrow(expect.objectContaining({ code: 'INVALID_OPTION', message: expect.stringContaining(option) }))
    expect(open).not.toThrow('hunter2')
  })
})

describe('URLs of Consul', () => {
  test.each(['consul://a', 'consul://a:1,b:2/team/elections', 'consuls://[::1]:8501/a%20b'])(
    'openStore opens %s without connecting',
    async (url) => {
      const store = await openStore(url, { environment: {} })
      expect(store).toMatchObject({ expiry: 'observed', terms: true, keepsTerms: true })
      await store.close?.()
    },
  )

  test.each(['consul:a', 'consul://', 'consul:///a', 'consul://a?token=hunter2', 'consul://hunter2@a', 'consul://a/%'])(
    'openStore refuses %s without showing a secret',
    async (url) => {
      const error: unknown = await openStore(url, { environment: {} }).catch((thrown: unknown) => thrown)
      expect(error).toMatchObject({ code: 'INVALID_OPTION' })
      expect(String(error)).not.toContain('hunter2')
    },
  )

  test('openStore reports a token file that cannot be read', async () => {
    const environment = { CONSUL_HTTP_TOKEN_FILE: '/none/of/these' }
    const store = await openStore('consul://127.0.0.1:9', { environment })
    const call = { signal: new AbortController().signal, timeoutMs: 1_000 }
    await expect(store.read('payments', call)).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: expect.stringContaining('CONSUL_HTTP_TOKEN_FILE'),
    })
  })
})
