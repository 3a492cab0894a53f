import { expect, test } from 'vitest'
import { shardVariables, withoutSecrets } from '../../src/run/environment.ts'

test('withoutSecrets removes the token, the passwords, and URLs that contain a password, and keeps the rest', () => {
  const kept = {
    PATH: '/bin',
    TENURE_TOKEN_FILE: '/run/token',
    TENURE_KEY_FILE: '/run/key',
    TENURE_STORE: 'file:///var/lib/leases',
    TENURE_URL: 'https://a.example,https://b.example',
    TOKEN: 'not ours',
  }
  const secrets = { TENURE_TOKEN: 'a', TENURE_STORE_PASSWORD: 'b', TENURE_SENTINEL_PASSWORD: 'c' }
  expect(withoutSecrets({ ...kept, ...secrets })).toEqual(kept)
  const { TENURE_STORE: _, TENURE_URL: __, ...rest } = kept
  const urls = { TENURE_STORE: 'postgres://me:hunter2@db/leases', TENURE_URL: 'rediss://cache?password=hunter2' }
  expect(withoutSecrets({ ...rest, ...urls })).toEqual(rest)
})

test('shardVariables replaces the variables of an outer tenure run, and those with which shards are shared', () => {
  const outer = { TENURE_TERM: '7', TENURE_SHARDS: 'imports:6', TENURE_MAX_MEMBERS: '40', TENURE_METRICS: '9464' }
  const shard = {
    election: 'imports',
    identity: 'node-17',
    shard: 3,
    token: 65_537,
    fencePath: '/run/fences/shard-3.json',
  }
  const environment = { ...outer, TENURE_TOKEN: 'a credential', ...shardVariables(shard) }
  expect(Object.entries(environment).filter(([, value]) => value !== undefined)).toEqual([
    ['TENURE_TOKEN', '65537'],
    ['TENURE_SHARD', '3'],
    ['TENURE_ELECTION', 'imports'],
    ['TENURE_IDENTITY', 'node-17'],
    ['TENURE_FENCE_FILE', '/run/fences/shard-3.json'],
  ])
})
