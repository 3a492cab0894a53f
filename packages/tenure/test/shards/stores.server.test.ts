/** Groups of shards on stores that the fault runs of shards in test/chaos do not use. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { DynamoDB } from '@aws-sdk/client-dynamodb'
import { S3 } from '@aws-sdk/client-s3'
import Database from 'libsql'
import { afterAll, beforeAll, describe } from 'vitest'
import { cloudEnvironment, clouds } from '../../../../test/servers/cloud-emulators.ts'
import { consul, removeKeys } from '../../../../test/servers/consul.ts'
import { localAws } from '../../../../test/servers/dynalite.ts'
import { localS3 } from '../../../../test/servers/moto.ts'
import type { RunningServer } from '../../../../test/servers/server.ts'
import { describeWith, describeWithCluster } from '../../../../test/servers/suite.ts'
import { KubernetesClient } from '../../src/clients/kubernetes/client.ts'
import type { LeaseStore } from '../../src/index.ts'
import { dynamodbStore } from '../../src/stores/dynamodb/index.ts'
import { openStore } from '../../src/stores/index.ts'
import { kubernetesStore } from '../../src/stores/kubernetes/index.ts'
import { s3Store } from '../../src/stores/s3/index.ts'
import { shardSuite } from './store-suite.ts'

const cloudStores: Readonly<Record<keyof typeof clouds, (server: RunningServer) => LeaseStore | Promise<LeaseStore>>> =
  {
    DynamoDB: ({ url }) => dynamodbStore({ client: new DynamoDB(localAws(url)), table: 'leases' }),
    S3: ({ url }) => s3Store({ client: new S3(localS3(url)), bucket: 'leases' }),
    'Azure Blob Storage': ({ port }) =>
      openStore(clouds['Azure Blob Storage'].urlAt(port), { environment: cloudEnvironment }),
    'Google Cloud Storage': ({ port }) => openStore(clouds['Google Cloud Storage'].urlAt(port)),
  }

for (const [name, cloud] of Object.entries(clouds)) {
  describeWith(cloud.kind, `shards on ${name}`, (server) => {
    beforeAll(() => cloud.prepare(server()))
    shardSuite(name, () => cloudStores[name as keyof typeof clouds](server()), {
      removeRecord: (group) => cloud.remove(server(), group),
    })
  })
}

describeWith(consul, 'shards on Consul', (server) => {
  shardSuite('Consul', () => openStore(`consul://127.0.0.1:${server().port}`), {
    removeRecord: (group) => removeKeys(server(), `tenure/${group}/record`),
  })
})

describe('shards on SQLite', () => {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-shards-'))
  const path = join(directory, 'leases.db')
  afterAll(() => rmSync(directory, { recursive: true, force: true }))
  shardSuite('SQLite', () => openStore(pathToFileURL(path).href.replace('file:', 'sqlite:')), {
    async removeRecord(group) {
      const admin = new Database(path, { timeout: 5_000 })
      admin.prepare('DELETE FROM tenure_leases WHERE election = ?').run(group)
      admin.close()
    },
  })
})

describeWithCluster('shards on Kubernetes Leases', (cluster) => {
  shardSuite(
    'Kubernetes',
    () => {
      const { url, ca, adminToken } = cluster()
      const credentials = () => ({ authorization: `Bearer ${adminToken}`, tls: { ca } })
      return kubernetesStore({ client: new KubernetesClient({ server: url, credentials }), namespace: 'default' })
    },
    {
      async removeRecord(group) {
        const path = `/apis/coordination.k8s.io/v1/namespaces/default/leases/${group}`
        const { status } = await cluster().admin.request('DELETE', path)
        if (status !== 200) throw new Error(`the API server answered ${status} to the deletion of the Lease`)
      },
    },
  )
})
