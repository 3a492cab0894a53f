/** Emulators of the cloud stores, each with a table or bucket for elections. */
import { DynamoDB } from '@aws-sdk/client-dynamodb'
import { S3 } from '@aws-sdk/client-s3'
import { objectOf } from '../../packages/tenure/src/store-kit/object-names.ts'
import { azurite, azuriteAccount, azuriteKey, localContainer } from './azurite.ts'
import { createTable, dynalite, localAws } from './dynalite.ts'
import { fakeGcs, gcsBucket } from './fake-gcs.ts'
import { localS3, moto } from './moto.ts'
import type { RunningServer, ServerKind } from './server.ts'

/** The actions of tests on a cloud store, without the library. */
export interface Cloud {
  readonly kind: ServerKind
  /** Creates the table or the bucket. */
  prepare(server: RunningServer): Promise<void>
  /** Returns the URL for the command line and `openStore`, at this port of this machine. */
  urlAt(port: number): string
  put(server: RunningServer, election: string, text: string): Promise<void>
  /** Removes the record of an election, under this folder if the store has folders. */
  remove(server: RunningServer, election: string, folder?: string): Promise<void>
  /** Removes all data. */
  wipe(server: RunningServer): Promise<void>
}

/** The credentials for the emulators. */
export const cloudEnvironment = {
  AZURE_STORAGE_KEY: azuriteKey,
  AWS_ACCESS_KEY_ID: 'test',
  AWS_SECRET_ACCESS_KEY: 'test',
  // Disables the SDK's warning about versions of Node.
  AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
}

const place = 'leases'
const usualFolder = 'tenure/'

async function withClient<Client extends { destroy(): void }, T>(client: Client, use: (client: Client) => Promise<T>) {
  try {
    return await use(client)
  } finally {
    client.destroy()
  }
}

const dynamodb = ({ url }: RunningServer) => new DynamoDB(localAws(url))
const s3 = ({ url }: RunningServer) => new S3(localS3(url))

async function gcs({ url }: RunningServer, path: string, init: RequestInit): Promise<Response> {
  const response = await fetch(`${url}${path}`, init)
  if (!response.ok && response.status !== 404) throw new Error(`${path}: ${response.status} ${await response.text()}`)
  return response
}

const gcsPath = (object: string) => `/storage/v1/b/${gcsBucket}/o/${encodeURIComponent(object)}`

export const clouds: Readonly<Record<'DynamoDB' | 'S3' | 'Azure Blob Storage' | 'Google Cloud Storage', Cloud>> = {
  DynamoDB: {
    kind: dynalite,
    prepare: (server) => withClient(dynamodb(server), (client) => createTable(client, place)),
    urlAt: (port) => `dynamodb://${place}?region=eu-central-1&endpoint=http://127.0.0.1:${port}`,
    put: (server, election, text) =>
      withClient(dynamodb(server), async (client) => {
        await client.putItem({ TableName: place, Item: { id: { S: `record/${election}` }, content: { S: text } } })
      }),
    remove: (server, election) =>
      withClient(dynamodb(server), async (client) => {
        await client.deleteItem({ TableName: place, Key: { id: { S: `record/${election}` } } })
      }),
    wipe: (server) =>
      withClient(dynamodb(server), async (client) => {
        const { Items: items = [] } = await client.scan({ TableName: place })
        for (const { id } of items) {
          if (id) await client.deleteItem({ TableName: place, Key: { id } })
        }
      }),
  },
  S3: {
    kind: moto,
    prepare: (server) => withClient(s3(server), async (client) => void (await client.createBucket({ Bucket: place }))),
    urlAt: (port) => `s3://${place}?region=us-east-1&endpoint=http://127.0.0.1:${port}`,
    put: (server, election, text) =>
      withClient(s3(server), async (client) => {
        await client.putObject({ Bucket: place, Key: objectOf(usualFolder, election, 'record'), Body: text })
      }),
    remove: (server, election, folder = usualFolder) =>
      withClient(s3(server), async (client) => {
        await client.deleteObject({ Bucket: place, Key: objectOf(folder, election, 'record') })
      }),
    wipe: (server) =>
      withClient(s3(server), async (client) => {
        const { Contents: contents = [] } = await client.listObjectsV2({ Bucket: place })
        for (const { Key: key } of contents) await client.deleteObject({ Bucket: place, Key: key })
      }),
  },
  'Azure Blob Storage': {
    kind: azurite,
    prepare: async ({ url }) => void (await localContainer(url, place).create()),
    urlAt: (port) => `azblob://${azuriteAccount}/${place}?endpoint=http://127.0.0.1:${port}/${azuriteAccount}`,
    async put({ url }, election, text) {
      const blob = localContainer(url, place).getBlockBlobClient(objectOf(usualFolder, election, 'record'))
      await blob.upload(text, Buffer.byteLength(text))
    },
    remove: async ({ url }, election, folder = usualFolder) =>
      void (await localContainer(url, place)
        .getBlockBlobClient(objectOf(folder, election, 'record'))
        .deleteIfExists()),
    async wipe({ url }) {
      const container = localContainer(url, place)
      for await (const { name } of container.listBlobsFlat()) await container.getBlockBlobClient(name).deleteIfExists()
    },
  },
  'Google Cloud Storage': {
    kind: fakeGcs,
    prepare: async () => {},
    // The emulator has no limit on the rate of writes.
    urlAt: (port) => `gs://${gcsBucket}?endpoint=http://127.0.0.1:${port}&writeIntervalMs=1`,
    async put(server, election, text) {
      const name = encodeURIComponent(objectOf(usualFolder, election, 'record'))
      const path = `/upload/storage/v1/b/${gcsBucket}/o?uploadType=media&name=${name}`
      await gcs(server, path, { method: 'POST', body: text })
    },
    async remove(server, election, folder = usualFolder) {
      await gcs(server, gcsPath(objectOf(folder, election, 'record')), { method: 'DELETE' })
    },
    async wipe(server) {
      const response = await gcs(server, `/storage/v1/b/${gcsBucket}/o`, { method: 'GET' })
      const { items = [] } = (await response.json()) as { items?: readonly { readonly name: string }[] }
      for (const { name } of items) await gcs(server, gcsPath(name), { method: 'DELETE' })
    },
  },
}
