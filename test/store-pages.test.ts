import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { S3Client } from '@aws-sdk/client-s3'
import { ContainerClient } from '@azure/storage-blob'
import { KubeConfig } from '@kubernetes/client-node'
import { Redis } from 'ioredis'
import Database from 'libsql'
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { expect, test } from 'vitest'
import { casStore, memoryStore, type LeaseStore } from '../packages/tenure/src/index.ts'
import { checkpointLimitOf, metadataLimitBytes } from '../packages/tenure/src/engine/check-values.ts'
import { encodeRecord } from '../packages/tenure/src/store-kit/record.ts'
import { azureBlobStore } from '../packages/tenure/src/stores/azure-blob/index.ts'
import { consulStore } from '../packages/tenure/src/stores/consul/index.ts'
import { dynamodbStore } from '../packages/tenure/src/stores/dynamodb/index.ts'
import { etcdStore } from '../packages/tenure/src/stores/etcd/index.ts'
import { fileStore } from '../packages/tenure/src/stores/file/index.ts'
import { gcsStore } from '../packages/tenure/src/stores/gcs/index.ts'
import { kubernetesStore } from '../packages/tenure/src/stores/kubernetes/index.ts'
import { multiclusterStore } from '../packages/tenure/src/stores/multicluster/index.ts'
import { mysqlStore } from '../packages/tenure/src/stores/mysql/index.ts'
import { natsStore } from '../packages/tenure/src/stores/nats/index.ts'
import { postgresStore } from '../packages/tenure/src/stores/postgres/index.ts'
import { redisStore } from '../packages/tenure/src/stores/redis/index.ts'
import { s3Store } from '../packages/tenure/src/stores/s3/index.ts'
import { serviceStore } from '../packages/tenure/src/stores/service/index.ts'
import { sqliteStore } from '../packages/tenure/src/stores/sqlite/index.ts'
import { unusedBucket } from './unused-bucket.ts'

const root = join(import.meta.dirname, '..')
const pageOf = (name: string) => readFileSync(join(root, 'docs/stores', `${name}.md`), 'utf8')

function cluster(): KubeConfig {
  const config = new KubeConfig()
  config.loadFromClusterAndUser({ name: 'c', server: 'https://127.0.0.1:1', skipTLSVerify: true }, { name: 'u' })
  return config
}

/** Every store that has a page and terms. None of them connects before its first call. */
const stores: Record<string, () => LeaseStore> = {
  'azure-blob': () => azureBlobStore({ container: new ContainerClient('https://a.example.com/leases') }),
  cas: () => casStore({ get: async () => undefined, putIfVersion: async () => undefined }),
  consul: () => consulStore({ endpoints: 'http://127.0.0.1:1' }),
  dynamodb: () => dynamodbStore({ client: new DynamoDBClient({ region: 'eu-west-1' }), table: 'leases' }),
  etcd: () => etcdStore({ endpoints: 'http://127.0.0.1:1' }),
  file: () => fileStore({ directory: 'leases' }),
  gcs: () => gcsStore({ bucket: 'leases' }),
  kubernetes: () => kubernetesStore({ client: cluster(), namespace: 'jobs' }),
  memory: () => memoryStore(),
  multicluster: () => multiclusterStore({ client: cluster(), namespace: 'jobs' }),
  mysql: () => mysqlStore({ client: createPool({}) }),
  nats: () => natsStore(unusedBucket),
  postgres: () => postgresStore({ client: new Pool() }),
  redis: () => redisStore({ connect: () => new Redis({ lazyConnect: true }) }),
  s3: () => s3Store({ client: new S3Client({ region: 'eu-west-1' }), bucket: 'leases' }),
  sqlite: () => sqliteStore({ client: new Database(':memory:') }),
  service: () => serviceStore({ url: 'http://127.0.0.1:1' }),
}
const names = Object.keys(stores)
const opened = new Map(names.map((name) => [name, stores[name]?.() ?? expect.unreachable()]))

/** The second cell of the row that begins with this cell. */
function cellAfter(text: string, first: string): string {
  const row = text.split('\n').find((line) => line.startsWith(`| ${first} `))
  return row?.split('|')[2]?.trim() ?? expect.unreachable(`there is no row "${first}"`)
}

const group = (bytes: number) => bytes.toLocaleString('en-US')

test('every page of a store with terms is compared with the code', () => {
  const pages = readFileSync(join(root, 'docs/stores/README.md'), 'utf8').matchAll(/^\| \[`\w+`\]\(([\w-]+)\.md\)/gm)
  expect([...new Set([...pages].map(([, name]) => name))].toSorted()).toEqual([...names, 'ttl'].toSorted())
})

test.each(names)('docs/stores/%s.md states the limit of checkpoints and keepsTerms of the code', (name) => {
  const store = opened.get(name) ?? expect.unreachable()
  const page = pageOf(name)
  expect(cellAfter(page, '`checkpointLimitBytes`')).toMatch(new RegExp(`^${group(checkpointLimitOf(store))}\\b`))
  expect(cellAfter(page, '`keepsTerms`')).toMatch(store.keepsTerms ? /^`true`/ : /`false`/)
  const overview = new RegExp(`\\(${name}\\.md#shards\\) +\\| ([\\d,]+) +\\| \`(\\w+)\``).exec(pageOf('README'))
  expect(overview?.slice(1)).toEqual([group(checkpointLimitOf(store)), String(store.keepsTerms ?? false)])
})

test.each(names.filter((name) => name !== 'kubernetes'))(
  'docs/stores/%s.md states the size of the largest record',
  (name) => {
    const store = opened.get(name) ?? expect.unreachable()
    const row = cellAfter(pageOf(name), '**The largest record**')
    const stated = Number(/a record is at most ([\d,]+) bytes/.exec(row)?.[1]?.replaceAll(',', ''))
    // Every character of the checkpoint takes six bytes, and every one of a name takes two.
    const longest = '"'.repeat(256)
    const checkpoint = '\0'.repeat(checkpointLimitOf(store))
    const metadata = { note: 'z'.repeat(metadataLimitBytes - '{"note":""}'.length) }
    const grant = { attempt: 'a'.repeat(36), term: Number.MAX_SAFE_INTEGER, leaseDurationMs: 3_600_000, released: true }
    const written = { acquiredAt: 2e12, renewedAt: 2e12, writeId: 'w'.repeat(36) }
    const record = {
      election: longest,
      holder: longest,
      successor: longest,
      metadata,
      checkpoint,
      ...grant,
      ...written,
    }
    const bytes = Buffer.byteLength(encodeRecord(record, () => 'i'.repeat(36)))
    expect(bytes).toBeLessThanOrEqual(stated)
    expect(bytes).toBeGreaterThan(0.95 * stated)
    expect(row).toContain(`${group(checkpointLimitOf(store))} bytes`)
  },
)

test('docs/explanation/shards.md has the figures of docs/explanation/exploration.md', () => {
  const read = (name: string) => readFileSync(join(root, 'docs/explanation', name), 'utf8')
  const statesIn = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, states]) => states)
  const section = read('exploration.md').split('## Groups of shards')[1] ?? ''
  const explored = statesIn(section, /\| ([\d,]+) states,/g)
  expect(explored).toHaveLength(7)
  expect(statesIn(read('shards.md'), /\| ([\d,]{5,}) +\|$/gm)).toEqual(explored)
})
