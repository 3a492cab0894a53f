import { waitUntilTableExists, type DynamoDB } from '@aws-sdk/client-dynamodb'
import { programs } from './programs.ts'
import type { ServerKind } from './server.ts'

/** An emulator of DynamoDB that evaluates conditions, with its data on disk. It has no transactions. */
export const dynalite: ServerKind = {
  name: 'dynalite',
  program: programs.dynalite,
  args: ({ directory, port }) => {
    const place = { host: '127.0.0.1', port, path: directory }
    const settings = { ...place, createTableMs: 0, deleteTableMs: 0, updateTableMs: 0 }
    return Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)])
  },
  probe: ({ port }) => fetch(`http://127.0.0.1:${port}`, { signal: AbortSignal.timeout(1_000) }),
  url: (port) => `http://127.0.0.1:${port}`,
  stopSignal: 'SIGTERM',
}

/** Returns the options of an AWS client for an emulator at this URL. */
export function localAws(url: string) {
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' }
  return { endpoint: url, region: 'eu-central-1', credentials, maxAttempts: 1 }
}

/** Creates a table for the store. */
export async function createTable(client: DynamoDB, table: string): Promise<void> {
  await client.createTable({
    TableName: table,
    AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
    KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
    BillingMode: 'PAY_PER_REQUEST',
  })
  await waitUntilTableExists({ client, maxWaitTime: 10, minDelay: 0.05, maxDelay: 0.1 }, { TableName: table })
}
