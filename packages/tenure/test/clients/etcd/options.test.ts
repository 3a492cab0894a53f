import { describe, expect, test } from 'vitest'
import { etcdAddressOf } from '../../../src/clients/etcd/url.ts'
import { etcdStore, type EtcdStoreOptions } from '../../../src/stores/etcd/index.ts'
import { openStore } from '../../../src/stores/index.ts'

describe('options of etcdStore', () => {
  const endpoints = 'http://127.0.0.1:2379'
  test.for<[string, unknown]>([
    ['endpoints', {}],
    ['endpoints', { endpoints: [] }],
    ['endpoints', { endpoints: '127.0.0.1:2379' }],
    ['endpoints', { endpoints: 'ftp://127.0.0.1' }],
    ['endpoints', { endpoints: 'http://me:hunter2@127.0.0.1' }],
    ['endpoints', { endpoints: 'http://me:hunter2/x@127.0.0.1' }],
    ['endpoints', { endpoints: 'http://me:1/hunter2@127.0.0.1' }],
    ['endpoints', { endpoints: 'http://127.0.0.1?a=hunter2' }],
    ['endpoints', { endpoints: ['http://127.0.0.1', 'https://127.0.0.1'] }],
    ['endpoints', { endpoints, ca: 'PEM' }],
    ['prefix', { endpoints, prefix: '' }],
    ['prefix', { endpoints, prefix: '/' }],
    ['prefix', { endpoints, prefix: 'a\n' }],
    ['prefix', { endpoints, prefix: 7 }],
    ['password', { endpoints, user: 'me' }],
    ['user', { endpoints, password: 'hunter2' }],
    ['user', { endpoints, user: '', password: 'hunter2' }],
    ['password', { endpoints, user: 'me', password: '' }],
    ['key', { endpoints: 'https://127.0.0.1', cert: 'PEM' }],
    ['clock', { endpoints, clock: {} }],
    ['prefx', { endpoints, prefx: 'a' }],
  ])('etcdStore refuses an invalid "%s": %j', ([option, options]) => {
    const open = () => etcdStore(options as EtcdStoreOptions)
    expect(open).toThrow(expect.objectContaining({ code: 'INVALID_OPTION', message: expect.stringContaining(option) }))
    expect(open).not.toThrow('hunter2')
  })
})

describe('URLs of etcd', () => {
  test.for<[string, object]>([
    ['etcd://a', { endpoints: ['http://a'] }],
    ['etcd://a:1,b:2/c', { endpoints: ['http://a:1', 'http://b:2'], prefix: 'c' }],
    ['etcds://[::1]:2379/a/b', { endpoints: ['https://[::1]:2379'], prefix: 'a/b' }],
    ['etcd://a//c', { endpoints: ['http://a'], prefix: '/c' }],
    ['etcd://me:p%40ss%3A%2F@a/x%20y', { endpoints: ['http://a'], prefix: 'x y', user: 'me', password: 'p@ss:/' }],
    ['ETCD://me:a:b@h', { endpoints: ['http://h'], user: 'me', password: 'a:b' }],
  ])('etcdAddressOf parses %s', ([url, expected]) => {
    const defined = Object.entries(etcdAddressOf(url, {}) ?? {}).filter(([, value]) => value !== undefined)
    expect(Object.fromEntries(defined)).toEqual(expected)
  })

  test('etcdAddressOf takes a user or a password that the URL omits from the environment', () => {
    const environment = { TENURE_STORE_USER: 'you', TENURE_STORE_PASSWORD: 'theirs' }
    expect(etcdAddressOf('etcd://a', environment)).toMatchObject({ user: 'you', password: 'theirs' })
    expect(etcdAddressOf('etcd://me@a', environment)).toMatchObject({ user: 'me', password: 'theirs' })
    expect(etcdAddressOf('etcd://me:mine@a', environment)).toMatchObject({ user: 'me', password: 'mine' })
  })

  test.for([
    'etcd:',
    'etcd://',
    'etcd:///prefix',
    'etcd://a?b=hunter2',
    'etcd://a#b',
    'etcd://a/%',
    'etcd://me:hunter2@',
    'etcd://me:hunter2,x%@a',
  ])('openStore refuses %s without showing a password', async (url) => {
    const opening = openStore(url, { environment: {} })
    await expect(opening).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(opening).rejects.not.toThrow('hunter2')
  })
})
