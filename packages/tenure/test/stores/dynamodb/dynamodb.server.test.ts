import { DynamoDB, DynamoDBClient, type DynamoDBClientConfig } from '@aws-sdk/client-dynamodb'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { createTable, dynalite, localAws } from '../../../../../test/servers/dynalite.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { dynamodbStore, type DynamoDBStoreOptions } from '../../../src/stores/dynamodb/index.ts'

/** Every kind of client that a program may have. */
const clients: Record<string, (config: DynamoDBClientConfig) => DynamoDBStoreOptions['client']> = {
  'a client with all operations': (config) => new DynamoDB(config),
  'a bare client': (config) => new DynamoDBClient(config),
}

describeWith(dynalite, 'dynamodbStore', (server) => {
  const table = 'leases'
  let admin: DynamoDB
  beforeAll(async () => {
    admin = new DynamoDB(localAws(server().url))
    await createTable(admin, table)
  })
  afterAll(() => admin.destroy())

  describe.each(Object.entries(clients))('dynamodbStore conforms with %s', (_name, clientOf) => {
    const open = () => dynamodbStore({ client: clientOf(localAws(server().url)), table })
    const cases = storeConformance(
      () => ({
        store: open(),
        open,
        remove: async (election) =>
          void (await admin.deleteItem({ TableName: table, Key: { id: { S: `record/${election}` } } })),
      }),
      { leaseDurationMs: 1_000, patienceMs: 20_000 },
    )
    for (const { name: promise, run } of cases) test.concurrent(promise, { timeout: 60_000 }, run)
  })
})
