import { S3, S3Client, type S3ClientConfig } from '@aws-sdk/client-s3'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { localS3, moto } from '../../../../../test/servers/moto.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { objectOf } from '../../../src/store-kit/object-names.ts'
import { s3Store, type S3StoreOptions } from '../../../src/stores/s3/index.ts'

/** Every kind of client that a program may have. */
const clients: Record<string, (config: S3ClientConfig) => S3StoreOptions['client']> = {
  'a client with all operations': (config) => new S3(config),
  'a bare client': (config) => new S3Client(config),
}

describeWith(moto, 's3Store', (server) => {
  const bucket = 'leases'
  let admin: S3
  beforeAll(async () => {
    admin = new S3(localS3(server().url))
    await admin.createBucket({ Bucket: bucket })
  })
  afterAll(() => admin.destroy())

  describe.each(Object.entries(clients))('s3Store conforms with %s', (name, clientOf) => {
    const open = () => s3Store({ client: clientOf(localS3(server().url)), bucket, prefix: name })
    const cases = storeConformance(
      () => ({
        store: open(),
        open,
        remove: async (election) =>
          void (await admin.deleteObject({ Bucket: bucket, Key: objectOf(`${name}/`, election, 'record') })),
      }),
      // The emulator is slow and serves one request at a time.
      { leaseDurationMs: 1_000, patienceMs: 20_000 },
    )
    for (const { name: promise, run } of cases) test.concurrent(promise, { timeout: 120_000 }, run)
  })
})
