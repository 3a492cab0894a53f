import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLogger, startService } from '@tenure/service'
import { backupData, createTokenKey, restoreData, signToken } from '@tenure/service/internal'
import {
  casStore,
  createElections,
  electionMetrics,
  Elector,
  lead,
  LeaderElector,
  Manager,
  members,
  memoryStore,
  observe,
  resolveTimings,
  ttlStore,
  withLock,
} from 'tenure'
import { storeConformance } from '@tenure/testing/conformance'
import { createFence, httpFence, postgresFence, redisFence } from 'tenure/fencing'
import { createJobs, cronSchedule, type Jobs } from 'tenure/jobs'
import { createShards } from 'tenure/shards'
import { fromKubeConfig } from 'tenure/kubernetes'
import { memoryTtlStorage, openStore } from 'tenure/stores'
import { dynamodbStore } from 'tenure/stores/dynamodb'
import { fileStore } from 'tenure/stores/file'
import { gcsStore } from 'tenure/stores/gcs'
import { natsStore } from 'tenure/stores/nats'
import { azureBlobStore } from 'tenure/stores/azure-blob'
import { consulStore } from 'tenure/stores/consul'
import { etcdStore } from 'tenure/stores/etcd'
import { kubernetesStore } from 'tenure/stores/kubernetes'
import { multiclusterStore } from 'tenure/stores/multicluster'
import { mysqlSchema, mysqlStore } from 'tenure/stores/mysql'
import { postgresSchema, postgresStore } from 'tenure/stores/postgres'
import { redisStore } from 'tenure/stores/redis'
import { electionTelemetry } from 'tenure/telemetry'
import { s3Store } from 'tenure/stores/s3'
import { serviceStore } from 'tenure/stores/service'
import { sqliteSchema, sqliteStore } from 'tenure/stores/sqlite'
import { explore, retrace, simulate } from '@tenure/testing/simulation'
import { fakeClock, fakeLeadership } from '@tenure/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { entryPoints, findOptionTakers } from './functions-with-options.ts'
import { unusedBucket } from './unused-bucket.ts'

const folder = mkdtempSync(join(tmpdir(), 'tenure-options-'))
afterAll(() => rmSync(folder, { recursive: true }))

const kubeConfig = join(folder, 'kubeconfig')
beforeAll(() =>
  writeFileSync(
    kubeConfig,
    JSON.stringify({
      'current-context': 'c',
      contexts: [{ name: 'c', context: { cluster: 'k', user: 'u' } }],
      clusters: [{ name: 'k', cluster: { server: 'https://127.0.0.1:6443' } }],
      users: [{ name: 'u', user: { token: 't' } }],
    }),
  ),
)

const store = memoryStore()
const storage = memoryTtlStorage<string, string>()
const needed = { store, election: 'e' }
const callbacks = { onStartedLeading: () => undefined }
const lease = { leaseName: 'l', leaseNamespace: 'n', identity: 'i', callbacks }
const backend = { get: async () => undefined, putIfVersion: async () => undefined }
const newElector = () => new Elector(needed)
const clientOf = () => fromKubeConfig(kubeConfig)

/** Runs a call on an elector, and stops the elector afterwards. */
async function onElector(call: (elector: Elector) => unknown): Promise<void> {
  const elector = newElector()
  try {
    await call(elector)
  } finally {
    await elector.stop()
  }
}

/** Runs a call on jobs, and closes the jobs afterwards. */
async function onJobs(call: (jobs: Jobs) => unknown): Promise<void> {
  const jobs = createJobs({ store })
  try {
    await call(jobs)
  } finally {
    await jobs.close()
  }
}

/** Calls each function with untyped options. `near` is a misspelled option and the correct one. */
interface Call {
  readonly with: (options: never) => unknown
  readonly valid?: object
  readonly near: readonly [given: string, meant: string]
}

const calls: Readonly<Record<string, Call>> = {
  'tenure: Elector': {
    with: (options) => new Elector(options),
    valid: needed,
    near: ['leaseDuration', 'leaseDurationMs'],
  },
  'tenure: Elector.start': { with: (options) => onElector((e) => e.start(options)), near: ['signals', 'signal'] },
  'tenure: Elector.waitForLeadership': {
    with: (options) => newElector().waitForLeadership(options),
    valid: { signal: AbortSignal.abort(new Error('enough')) },
    near: ['sinal', 'signal'],
  },
  'tenure: Elector.events': { with: (options) => newElector().events(options), near: ['Signal', 'signal'] },
  'tenure: Elector.stepDown': {
    with: (options) => onElector((e) => e.stepDown(options)),
    near: ['cooldown', 'cooldownMs'],
  },
  'tenure: Leadership.stepDown': {
    with: (options) =>
      onElector(async (e) => {
        e.start()
        const leadership = await e.waitForLeadership()
        leadership.stepDown(options)
      }),
    near: ['too', 'to'],
  },
  'tenure: observe': { with: (options) => observe(store, 'e', options), near: ['pollInterval', 'pollIntervalMs'] },
  'tenure: withLock': { with: (options) => withLock(store, 'e', () => undefined, options), near: ['wait', 'waitMs'] },
  'tenure: members': { with: (options) => members(store, 'e', options), near: ['observe', 'observeMs'] },
  'tenure: LeaseStore.list': {
    with: (options) => store.list?.(options, { signal: AbortSignal.timeout(1_000) }),
    near: ['limits', 'limit'],
  },
  'tenure: casStore': { with: (options) => casStore(backend, options), near: ['clok', 'clock'] },
  'tenure: electionMetrics': { with: (options) => electionMetrics(options), near: ['cloc', 'clock'] },
  'tenure: memoryStore': { with: (options) => memoryStore(options), near: ['Clock', 'clock'] },
  'tenure: ttlStore': { with: (options) => ttlStore(storage, options), near: ['clocks', 'clock'] },
  'tenure: createElections': {
    with: (options) => createElections(options),
    valid: { storage },
    near: ['onStoreError', 'onStorageError'],
  },
  'tenure: Elections.acquireLeadership': {
    with: (options) => createElections({ storage }).acquireLeadership('k', 'v', options),
    valid: { durationMs: 5_000 },
    near: ['duration', 'durationMs'],
  },
  'tenure: lead': {
    with: (options) => lead(options, () => undefined),
    valid: { ...needed, election: 'lead' },
    near: ['onLost', 'onLoss'],
  },
  'tenure: LeaderElector': {
    with: (options) => new LeaderElector(options),
    valid: { store, ...lease },
    near: ['retryPeriod', 'retryPeriodMs'],
  },
  'tenure: LeaderElector.run': {
    with: (options) => new LeaderElector({ store, ...lease }).run(options),
    valid: { signal: AbortSignal.abort() },
    near: ['onces', 'once'],
  },
  'tenure: LeaderElector.stepDown': {
    with: (options) => new LeaderElector({ store, ...lease }).stepDown(options),
    near: ['cooldown', 'cooldownMs'],
  },
  'tenure: LeaderElector.healthCheck': {
    with: (options) => new LeaderElector({ store, ...lease }).healthCheck(options),
    near: ['tolerance', 'toleranceMs'],
  },
  'tenure: Lease.waitForLeadership': {
    with: async (options) => {
      const manager = new Manager(needed)
      try {
        return await manager.start().waitForLeadership(options)
      } finally {
        await manager.stop()
      }
    },
    near: ['sginal', 'signal'],
  },
  'tenure: Manager': {
    with: (options) => new Manager(options),
    valid: needed,
    near: ['maxFailedRenewal', 'maxFailedRenewals'],
  },
  'tenure: Manager.stepDown': {
    with: (options) => new Manager(needed).stepDown(options),
    near: ['too', 'to'],
  },
  'tenure: Manager.start': {
    with: async (options) => {
      const manager = new Manager(needed)
      try {
        return manager.start(options)
      } finally {
        await manager.stop()
      }
    },
    near: ['signl', 'signal'],
  },
  'tenure: resolveTimings': { with: (options) => resolveTimings(options), near: ['renewInterval', 'renewIntervalMs'] },
  'tenure/telemetry: electionTelemetry': {
    with: (options) => electionTelemetry(options),
    near: ['metricProvider', 'meterProvider'],
  },
  'tenure/jobs: createJobs': {
    with: (options) => createJobs(options),
    valid: { store },
    near: ['shareLeader', 'sharedLeader'],
  },
  'tenure/jobs: Jobs.every': {
    with: (options) => onJobs((jobs) => jobs.every({ hours: 1 }, options, () => undefined)),
    valid: { name: 'every' },
    near: ['timeZone', 'timezone'],
  },
  'tenure/jobs: Jobs.once': {
    with: (options) => onJobs((jobs) => jobs.once('once', () => undefined, options)),
    near: ['maxRuntime', 'maxRuntimeMs'],
  },
  'tenure/jobs: Jobs.atMostOncePer': {
    with: (options) => onJobs((jobs) => jobs.atMostOncePer({ hours: 1 }, 'sparse', () => undefined, options)),
    near: ['retryDelay', 'retryDelayMs'],
  },
  'tenure/jobs: Jobs.tryRun': {
    with: (options) => onJobs((jobs) => jobs.tryRun('try', () => undefined, options)),
    near: ['retrys', 'retries'],
  },
  'tenure/jobs: cronSchedule': {
    with: (options) => cronSchedule('@daily', options),
    near: ['timezones', 'timezone'],
  },
  'tenure/shards: createShards': {
    with: (options) => createShards(options),
    valid: { store, group: 'g', shards: 2 },
    near: ['maxMove', 'maxMoves'],
  },
  'tenure/shards: Shards.changes': {
    with: (options) => createShards({ store, group: 'g', shards: 2 }).changes(options),
    near: ['signl', 'signal'],
  },
  'tenure/stores: openStore': { with: (options) => openStore('memory:', options), near: ['enviroment', 'environment'] },
  'tenure/stores: memoryTtlStorage': { with: (options) => memoryTtlStorage(options), near: ['colck', 'clock'] },
  'tenure/stores/file: fileStore': {
    with: (options) => fileStore(options),
    valid: { directory: folder },
    near: ['fastTakeOvers', 'fastTakeover'],
  },
  'tenure/stores/kubernetes: kubernetesStore': {
    with: (options) => kubernetesStore({ client: clientOf(), ...(options as object) }),
    near: ['nameSpace', 'namespace'],
  },
  'tenure/stores/multicluster: multiclusterStore': {
    with: (options) => multiclusterStore(options),
    get valid() {
      return { client: clientOf() }
    },
    near: ['namspace', 'namespace'],
  },
  'tenure/stores/consul: consulStore': {
    with: (options) => consulStore(options),
    valid: { endpoints: 'http://127.0.0.1:1' },
    near: ['tokens', 'token'],
  },
  'tenure/stores/etcd: etcdStore': {
    with: (options) => etcdStore(options),
    valid: { endpoints: 'http://127.0.0.1:1' },
    near: ['endpoint', 'endpoints'],
  },
  'tenure/stores/mysql: mysqlStore': {
    with: (options) => mysqlStore(options),
    valid: { client: { execute: async () => [] } },
    near: ['tables', 'table'],
  },
  'tenure/stores/mysql: mysqlSchema': { with: (options) => mysqlSchema(options), near: ['tabel', 'table'] },
  'tenure/stores/postgres: postgresStore': {
    with: (options) => postgresStore(options),
    valid: { client: { query: async () => [] } },
    near: ['tables', 'table'],
  },
  'tenure/stores/postgres: postgresSchema': { with: (options) => postgresSchema(options), near: ['rol', 'role'] },
  'tenure/stores/redis: redisStore': {
    with: (options) => redisStore(options),
    valid: { connect: () => Promise.reject(new Error('nothing is connected')) },
    near: ['prefixes', 'prefix'],
  },
  'tenure/stores/nats: natsStore': {
    with: (options) => natsStore(options),
    valid: unusedBucket,
    near: ['monitors', 'monitor'],
  },
  'tenure/stores/dynamodb: dynamodbStore': {
    with: (options) => dynamodbStore(options),
    valid: { client: { send: async () => ({}) }, table: 'leases' },
    near: ['tables', 'table'],
  },
  'tenure/stores/azure-blob: azureBlobStore': {
    with: (options) => azureBlobStore(options),
    valid: { container: { getBlockBlobClient() {}, listBlobsByHierarchy() {}, getProperties() {} } as never },
    near: ['prefixes', 'prefix'],
  },
  'tenure/stores/gcs: gcsStore': {
    with: (options) => gcsStore(options),
    valid: { bucket: 'leases' },
    near: ['buckets', 'bucket'],
  },
  'tenure/stores/s3: s3Store': {
    with: (options) => s3Store(options),
    valid: { client: { send: async () => ({}) }, bucket: 'leases' },
    near: ['prefixes', 'prefix'],
  },
  'tenure/stores/sqlite: sqliteStore': {
    with: (options) => sqliteStore(options),
    valid: { client: { exec: () => {}, prepare: () => ({ all: () => [] }) } },
    near: ['tables', 'table'],
  },
  'tenure/stores/sqlite: sqliteSchema': { with: (options) => sqliteSchema(options), near: ['tables', 'table'] },
  'tenure/stores/service: serviceStore': {
    with: (options) => serviceStore(options),
    valid: { url: 'http://127.0.0.1:1' },
    near: ['tokens', 'token'],
  },
  'tenure/fencing: createFence': { with: (options) => createFence(options), near: ['highestterm', 'highestTerm'] },
  'tenure/fencing: httpFence': {
    with: (options) => httpFence(options, () => undefined),
    valid: { fence: createFence() },
    near: ['onerror', 'onError'],
  },
  'tenure/fencing: postgresFence': {
    with: (options) => postgresFence(options),
    valid: { pool: { connect: () => undefined }, resource: 'r' },
    near: ['idleTimeout', 'idleTimeoutMs'],
  },
  'tenure/fencing: redisFence': {
    with: (options) => redisFence(options),
    valid: { client: { eval: async () => undefined }, resource: 'r' },
    near: ['prefx', 'prefix'],
  },
  '@tenure/testing: fakeLeadership': { with: (options) => fakeLeadership(options), near: ['terms', 'term'] },
  '@tenure/testing/conformance: storeConformance': {
    with: (options) => storeConformance(() => ({ store }), options),
    near: ['patience', 'patienceMs'],
  },
  '@tenure/testing/simulation: simulate': {
    with: (options) => simulate(options),
    valid: { seed: 1, hours: 0.001 },
    near: ['clockBeyondBounds', 'clocksBeyondBound'],
  },
  '@tenure/testing/simulation: explore': {
    with: (options) => explore(options),
    valid: { electors: 1, budget: 0 },
    near: ['delayTick', 'delayTicks'],
  },
  '@tenure/testing/simulation: retrace': {
    with: (options) => retrace(options, []),
    valid: { electors: 1 },
    near: ['budgets', 'budget'],
  },
  '@tenure/service: createLogger': {
    with: (options) => createLogger(options),
    valid: { level: 'silent', json: true, stream: { write: () => undefined } },
    near: ['levels', 'level'],
  },
  '@tenure/service: startService': {
    with: async (options) => (await startService(options)).close(),
    valid: { data: join(folder, 'data'), port: 0 },
    near: ['allowedHost', 'allowedHosts'],
  },
  '@tenure/service/internal: signToken': {
    with: async (options) => signToken((await createTokenKey()).privateKey, options),
    valid: { node: 'node-17', admin: true },
    near: ['group', 'groups'],
  },
  '@tenure/service/internal: backupData': {
    with: async (options) => {
      await (await startService({ data: join(folder, 'source'), port: 0 })).close()
      await backupData(options)
      rmSync(join(folder, 'backup'), { recursive: true })
    },
    valid: { data: join(folder, 'source'), to: join(folder, 'backup') },
    near: ['date', 'data'],
  },
  '@tenure/service/internal: restoreData': {
    with: async (options) => {
      await (await startService({ data: join(folder, 'restored'), port: 0 })).close()
      await restoreData(options)
    },
    valid: { data: join(folder, 'restored') },
    near: ['date', 'data'],
  },
}

/** Parameters that look like options but are not checked as options. */
const exempt: Readonly<Record<string, string>> = {
  'tenure: Clock.setTimer': 'users implement it',
  'tenure: CompareAndSwap.list': 'users implement it',
  'tenure/store-kit: granted': 'it takes a claim',
  'tenure: TenureError': 'created while another error is handled, so it must not throw',
  'tenure/stores/service: ServiceStore.request': 'the service itself reports what is wrong with a request',
  'tenure/store-kit: checkOptions': 'it is the check itself',
  '@tenure/service/internal: migrateData': 'migrate.test.ts checks it, because it needs two storages',
  '@tenure/service/internal: restoreShared': 'migrate.test.ts checks it, because it needs a server',
  '@tenure/service/internal: rotateSecret': 'link.test.ts checks it, because it needs a server',
  'tenure/fencing: NodeRedisClient.eval': 'users implement it',
  'tenure/kubernetes: KubeConfigLike.applyToHTTPSOptions': 'users implement it',
  'tenure/stores/postgres: PostgresListeningSql.end': 'users implement it',
  'tenure/stores/redis: NodeRedisStoreClient.eval': 'of the package "redis"',
  'tenure/stores/redis: NodeRedisStoreClient.evalSha': 'of the package "redis"',
  'tenure/stores/nats: NatsKv.delete': 'of the package "@nats-io/kv"',
  'tenure/stores/nats: NatsKv.watch': 'of the package "@nats-io/kv"',
  'tenure/stores/azure-blob: AzureBlob.delete': 'of the Azure SDK',
  'tenure/stores/azure-blob: AzureBlob.download': 'of the Azure SDK',
  'tenure/stores/azure-blob: AzureBlob.upload': 'of the Azure SDK',
  'tenure/stores/azure-blob: AzureContainer.getProperties': 'of the Azure SDK',
  'tenure/stores/azure-blob: AzureContainer.listBlobsByHierarchy': 'of the Azure SDK',
  'tenure/stores/dynamodb: AwsClient.send': 'of the AWS SDK',
  'tenure/stores/dynamodb: DynamoDBApi.deleteItem': 'of the AWS SDK',
  'tenure/stores/dynamodb: DynamoDBApi.describeTable': 'of the AWS SDK',
  'tenure/stores/dynamodb: DynamoDBApi.describeTimeToLive': 'of the AWS SDK',
  'tenure/stores/dynamodb: DynamoDBApi.getItem': 'of the AWS SDK',
  'tenure/stores/dynamodb: DynamoDBApi.putItem': 'of the AWS SDK',
  'tenure/stores/dynamodb: DynamoDBApi.scan': 'of the AWS SDK',
  'tenure/stores/s3: S3Api.getBucketLifecycleConfiguration': 'of the AWS SDK',
  'tenure/stores/s3: S3Api.getBucketVersioning': 'of the AWS SDK',
  'tenure/stores/s3: S3Api.getObject': 'of the AWS SDK',
  'tenure/stores/s3: S3Api.listObjectsV2': 'of the AWS SDK',
  'tenure/stores/s3: S3Api.putObject': 'of the AWS SDK',
  'tenure/telemetry: TelemetryMeter.createHistogram': 'of OpenTelemetry',
  'tenure/telemetry: TelemetryMeter.createObservableCounter': 'of OpenTelemetry',
  'tenure/telemetry: TelemetryMeter.createObservableGauge': 'of OpenTelemetry',
  'tenure/telemetry: TelemetrySpan.setStatus': 'of OpenTelemetry',
  'tenure/telemetry: TelemetryTracer.startSpan': 'of OpenTelemetry',
}

const names = Object.keys(calls)

async function refusal(call: () => unknown): Promise<Error> {
  try {
    await call()
  } catch (error) {
    expect(error).toBeInstanceOf(TypeError)
    expect(error).toMatchObject({ code: 'INVALID_OPTION', retryable: false })
    return error as Error
  }
  return expect.unreachable('the call was accepted')
}

const callOf = (name: string): Call => calls[name] ?? expect.unreachable(name)
const give = (name: string, options: unknown) => callOf(name).with(options as never)

test('every public function, constructor, and method that takes options is in the table', () => {
  const takers = findOptionTakers(['tenure', 'testing', 'service'].flatMap((name) => entryPoints(`packages/${name}`)))
  const found = [...new Set(takers.map(({ name }) => name))]
  expect(found.toSorted()).toEqual([...names, ...Object.keys(exempt)].toSorted())
  for (const { name, options } of takers) {
    if (name in calls) expect(options, name).toContain(callOf(name).near[1])
  }
})

test('a new function with options is detected however its options are declared', () => {
  const file = join(folder, 'planted.d.ts')
  const planted = `
    export interface PlantedOptions { readonly one?: string }
    export declare function byType(given: PlantedOptions): void
    export declare function byName(options?: { readonly one?: string }): void
    export declare function inPlace(given: { two?: string; three: string }): void
    export declare function without(name: string, clock: Date): void
    export declare class Planted { constructor(given: PlantedOptions); go(given: { four: 1 }): void }
    export interface PlantedPort { act(claim: PlantedOptions): void }`
  writeFileSync(file, planted)
  expect(findOptionTakers([{ entry: 'p', file }])).toEqual([
    { name: 'p: byType', options: ['one'] },
    { name: 'p: byName', options: ['one'] },
    { name: 'p: inPlace', options: ['two', 'three'] },
    { name: 'p: Planted', options: ['one'] },
    { name: 'p: Planted.go', options: ['four'] },
    { name: 'p: PlantedPort.act', options: ['one'] },
  ])
})

describe('an unknown option', () => {
  test.each(names)('%s rejects an unknown option by name and shows no value', async (name) => {
    const { message } = await refusal(() => give(name, { ...callOf(name).valid, nonsense: 'a secret' }))
    expect(message).toMatch(/^[\w()]+ has no option "nonsense"\. It takes .*\w\.$/)
    expect(message, 'without its value').not.toContain('secret')
  })

  test.each(names)('%s rejects an unknown option and suggests the correct one', async (name) => {
    const { valid, near } = callOf(name)
    const { message } = await refusal(() => give(name, { ...valid, [near[0]]: 1 }))
    expect(message).toMatch(new RegExp(`^[\\w()]+ has no option "${near[0]}"\\. Did you mean "${near[1]}"\\?$`))
  })

  test.each(names)(
    '%s ignores an unknown option that is undefined and accepts the required options alone',
    async (name) => {
      const { valid, near } = callOf(name)
      const outcome = await Promise.resolve()
        .then(() => give(name, { ...valid, [near[0]]: undefined }))
        .catch((error: unknown) => error)
      expect(outcome).not.toMatchObject({ code: 'INVALID_OPTION' })
    },
  )
})

describe('a value that is not an options object', () => {
  const kubernetesStoreTakesAnObject = (name: string) => name !== 'tenure/stores/kubernetes: kubernetesStore'

  test.each(names.filter(kubernetesStoreTakesAnObject))('%s rejects options that are not an object', async (name) => {
    const { signal } = new AbortController()
    const { message } = await refusal(() => give(name, signal))
    expect(message).toMatch(/^Option "options" is an AbortSignal, but it must be an object: \{ .+ \}\.$/)
    expect(message).toContain(callOf(name).near[1])
    expect((await refusal(() => give(name, Promise.resolve(callOf(name).valid)))).message).toContain('await it first')
    for (const wrong of [null, 5_000, 'options', [], () => undefined]) {
      const { message } = await refusal(() => give(name, wrong))
      expect(message).toMatch(/^Option "options" is .+, but it must be an object: \{ .+ \}\.$/)
    }
  })

  test('the error explains what to pass when start() is called with a bare AbortSignal', async () => {
    const { message } = await refusal(() => newElector().start(new AbortController().signal as never))
    expect(message).toBe('Option "options" is an AbortSignal, but it must be an object: { signal, until, waitMs }.')
  })
})

describe('nested options', () => {
  const data = { data: join(folder, 'data'), port: 0 }
  test.each<[string, (name: string) => unknown, string, string]>([
    [
      'callbacks',
      (name) => new LeaderElector({ ...lease, store, callbacks: { ...callbacks, [name]: () => undefined } }),
      'onStoppedLeadin',
      'onStoppedLeading',
    ],
    [
      'policy',
      (name) => startService({ ...data, policy: { minTtlMs: 1, maxTtlMs: 2, [name]: 1 } }),
      'minTtl',
      'minTtlMs',
    ],
    ['limits', (name) => startService({ ...data, limits: { [name]: 1 } }), 'maxConnection', 'maxConnections'],
    [
      'tls',
      (name) => startService({ ...data, tls: { certFile: '', keyFile: '', [name]: '' } }),
      'clientCa',
      'clientCaFile',
    ],
    ['authentication', (name) => startService({ ...data, authentication: { [name]: {} } }), 'jwts', 'jwt'],
    [
      'authentication.jwt',
      (name) =>
        startService({ ...data, authentication: { jwt: { keysFile: '', issuer: '', audience: '', [name]: 1 } } }),
      'maxLifetime',
      'maxLifetimeMs',
    ],
    [
      'authentication.certificates',
      (name) => startService({ ...data, authentication: { certificates: { rightsFile: '', [name]: 1 } } }),
      'rightFile',
      'rightsFile',
    ],
  ])('%s rejects unknown nested options', async (taker, call, given, meant) => {
    expect((await refusal(() => call(given))).message).toBe(
      `${taker} has no option "${given}". Did you mean "${meant}"?`,
    )
  })

  test('startService rejects a nested option that is not an object', async () => {
    const { message } = await refusal(() => startService({ ...data, tls: 'cert.pem' as never }))
    expect(message).toBe('Option "tls" is "cert.pem", but it must be an object: { certFile, keyFile, clientCaFile }.')
  })

  test('metadata and environments accept any name', () => {
    expect(() => new Elector({ ...needed, metadata: { anything: 1 } })).not.toThrow()
    expect(() => openStore('memory:', { environment: { ANYTHING: '1' } })).not.toThrow()
  })
})

describe('an object that users implement', () => {
  const nothing = () => undefined
  const without = <T extends object>(value: T, name: string) =>
    Object.fromEntries(Object.entries(value).filter(([key]) => key !== name)) as T
  const quiet = without(memoryStore(), 'watch')

  class Callbacks {
    readonly log: string[] = []
    onStartedLeading(): void {}
    report(): void {}
  }
  class Mistyped extends Callbacks {
    onStopedLeading(): void {}
  }

  test.each<[string, () => unknown, string, string]>([
    ['a store', () => new Elector({ ...needed, store: { ...quiet, wach: nothing } as never }), 'wach', 'watch'],
    ['a store', () => new Manager({ ...needed, store: { ...quiet, Watch: nothing } as never }), 'Watch', 'watch'],
    ['a store', () => new Elector({ ...needed, store: { ...quiet, cloes: nothing } as never }), 'cloes', 'close'],
    ['a backend', () => casStore({ ...backend, wacth: nothing } as never), 'wacth', 'watch'],
    ['a backend', () => casStore({ ...backend, wattch: nothing } as never), 'wattch', 'watch'],
    ['an observer', () => new Elector({ ...needed, observer: { onevent: nothing } as never }), 'onevent', 'onEvent'],
    ['an observer', () => new Manager({ ...needed, observer: { onEvents: nothing } as never }), 'onEvents', 'onEvent'],
    ['an observer', () => createElections({ storage, observer: { oncall: nothing } as never }), 'oncall', 'onCall'],
    [
      'callbacks',
      () => new LeaderElector({ ...lease, store, callbacks: new Mistyped() }),
      'onStopedLeading',
      'onStoppedLeading',
    ],
    ['a store under test', () => underTest({ store, remov: nothing }), 'remov', 'remove'],
    ['a store under test', () => underTest({ store, forgetTerms: true }), 'forgetTerms', 'forgetsTerms'],
  ])('%s with a misspelled optional member is rejected', async (_, make, given, meant) => {
    const { message } = await refusal(make)
    expect(message).toMatch(/^Option "[\w()]+" has a member /)
    expect(message).toContain(`"${given}", which nothing uses. Did you mean "${meant}"?`)
  })

  test('a misspelled optional member is also detected in a class', async () => {
    class Mine {
      readonly expiry = 'observed'
      readonly terms = true
      async read(): Promise<undefined> {}
      async acquire(): Promise<never> {
        throw new Error('never')
      }
      renew = this.acquire
      release = this.acquire
      wach(): void {}
    }
    expect((await refusal(() => new Elector({ ...needed, store: new Mine() }))).message).toContain('"watch"')
  })

  test('unrelated extra members are accepted, even if they look similar', () => {
    const others = {
      closed: true,
      clone: nothing,
      patch: nothing,
      match: nothing,
      watcher: nothing,
      watched: 1,
      log: nothing,
    }
    expect(() => new Elector({ ...needed, store: { ...quiet, ...others } })).not.toThrow()
    expect(() => casStore({ ...backend, ...others })).not.toThrow()
    expect(
      () => new Elector({ ...needed, observer: { onEvent: nothing, onEvents: 1, onError: nothing } as never }),
    ).not.toThrow()
    expect(() => new LeaderElector({ ...lease, store, callbacks: new Callbacks() })).not.toThrow()
  })

  test.each<[string, () => unknown]>([
    ['a store', () => new Elector({ ...needed, store: openStore('memory:') as never })],
    ['a store of lead()', () => lead({ ...needed, store: openStore('memory:') as never }, nothing)],
    ['a store of a Manager', () => new Manager({ ...needed, store: openStore('memory:') as never })],
    ['a store of a LeaderElector', () => new LeaderElector({ ...lease, store: openStore('memory:') as never })],
    ['a backend', () => casStore(Promise.resolve(backend) as never)],
    ['a storage', () => createElections({ storage: Promise.resolve(storage) as never })],
    ['a clock', () => memoryStore({ clock: Promise.resolve(fakeClock()) as never })],
    ['a client', () => redisFence({ client: Promise.resolve({ eval: nothing }) as never, resource: 'r' })],
    ['a client of Kubernetes', () => kubernetesStore({ client: Promise.resolve(clientOf()) as never })],
    ['a client of a cluster', () => multiclusterStore({ client: Promise.resolve(clientOf()) as never })],
    ['a pool', () => postgresFence({ pool: Promise.resolve({ connect: nothing }) as never, resource: 'r' })],
    ['a store under test', () => underTest({ store: Promise.resolve(store) })],
    ['a store in a simulation', () => simulate({ seed: 1, store: (async () => memoryStore()) as never })],
  ])('the error says what to do when %s is a promise', async (_, make) => {
    expect((await refusal(make)).message).toMatch(/^Option "\w+" is a promise, but it must be .*: await it first\.$/)
  })

  async function underTest(under: object): Promise<void> {
    await storeConformance(() => under as never)[0]?.run()
  }
})
