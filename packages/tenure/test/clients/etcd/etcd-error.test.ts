import { expect, test } from 'vitest'
import { etcdErrorOf } from '../../../src/clients/etcd/etcd-error.ts'

test.each([
  { code: 16, message: 'etcdserver: invalid auth token' },
  { code: 3, message: 'etcdserver: revision of auth store is old' },
  { code: 2, message: 'auth: revision in header is old' },
])('a token is replaced when etcd answers "$message"', (body) => {
  expect(etcdErrorOf('etcd', body)).toMatchObject({ reason: 'token', code: 'UNAUTHORIZED' })
})
