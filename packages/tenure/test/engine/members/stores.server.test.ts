/** The presence of members on real servers. */
import { beforeAll, expect, test } from 'vitest'
import { DynamoDB } from '@aws-sdk/client-dynamodb'
import { S3 } from '@aws-sdk/client-s3'
import { cloudEnvironment, clouds } from '../../../../../test/servers/cloud-emulators.ts'
import { localAws } from '../../../../../test/servers/dynalite.ts'
import { consul } from '../../../../../test/servers/consul.ts'
import { etcd } from '../../../../../test/servers/etcd.ts'
import { localS3 } from '../../../../../test/servers/moto.ts'
import { postgres } from '../../../../../test/servers/postgres.ts'
import { redis } from '../../../../../test/servers/redis.ts'
import type { RunningServer, ServerKind } from '../../../../../test/servers/server.ts'
import { describeWith, describeWithCluster } from '../../../../../test/servers/suite.ts'
import { KubernetesClient } from '../../../src/clients/kubernetes/client.ts'
import { members, type LeaseStore } from '../../../src/index.ts'
import { dynamodbStore } from '../../../src/stores/dynamodb/index.ts'
import { openStore } from '../../../src/stores/index.ts'
import { kubernetesStore } from '../../../src/stores/kubernetes/index.ts'
import { s3Store } from '../../../src/stores/s3/index.ts'
import { endProcess, expectReleased, newElection, openedStore, startLeader } from '../guard/guarded-process.ts'
import { presenceSuite } from './store-suite.ts'

const urlOf = ({ url, port }: RunningServer, scheme: string) =>
  /^(consul|etcd)$/.test(scheme) ? `${scheme}://127.0.0.1:${port}` : url.replace(/^http/, scheme)

const stores: readonly [ServerKind, string][] = [
  [redis, 'redis'],
  [postgres, 'postgres'],
  [etcd, 'etcd'],
  [consul, 'consul'],
]

for (const [kind, scheme] of stores) {
  describeWith(kind, `presence on ${kind.name}`, (server) => {
    presenceSuite(kind.name, () => openStore(urlOf(server(), scheme)))
  })
}

const cloudStores: Readonly<Record<keyof typeof clouds, (server: RunningServer) => LeaseStore | Promise<LeaseStore>>> =
  {
    DynamoDB: ({ url }) => dynamodbStore({ client: new DynamoDB(localAws(url)), table: 'leases' }),
    S3: ({ url }) => s3Store({ client: new S3(localS3(url)), bucket: 'leases' }),
    'Azure Blob Storage': ({ port }) =>
      openStore(clouds['Azure Blob Storage'].urlAt(port), { environment: cloudEnvironment }),
    'Google Cloud Storage': ({ port }) => openStore(clouds['Google Cloud Storage'].urlAt(port)),
  }

for (const [name, cloud] of Object.entries(clouds)) {
  describeWith(cloud.kind, `presence on ${name}`, (server) => {
    beforeAll(() => cloud.prepare(server()))
    presenceSuite(name, () => cloudStores[name as keyof typeof clouds](server()))
  })
}

describeWithCluster('presence on Kubernetes Leases', (cluster) => {
  presenceSuite('Kubernetes', () => {
    const { url, ca, adminToken } = cluster()
    const credentials = () => ({ authorization: `Bearer ${adminToken}`, tls: { ca } })
    return kubernetesStore({ client: new KubernetesClient({ server: url, credentials }), namespace: 'default' })
  })
})

describeWith(redis, 'presence and releaseOnCrash', (server) => {
  test('the guard of a killed process also releases its seat', async () => {
    const election = newElection()
    const leader = await startLeader(server().url, { elections: [election], identity: 'a', present: true })
    const store = await openedStore(server().url)
    await expect.poll(async () => (await members(store, election)).length, { timeout: 20_000 }).toBe(1)
    await endProcess(leader.child)
    await expectReleased(store, `${election}.member.0`)
    expect(await members(store, election)).toEqual([])
  })
})
