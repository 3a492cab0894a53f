import { createClient } from '@libsql/client'
import Database from 'libsql'
import { describe, test } from 'vitest'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { sqliteStore, type SqliteClient } from '../../../src/stores/sqlite/index.ts'
import { newPath } from './fixtures.ts'

/** Every kind of client that is installed for the everyday tests. */
const clients: Record<string, (path: string) => SqliteClient & { close(): void }> = {
  'a Database of libsql': (path) => new Database(path),
  'a client of @libsql/client': (path) => createClient({ url: `file:${path}` }),
}

describe.each(Object.entries(clients))('sqliteStore conforms with %s', (_, clientOf) => {
  const cases = storeConformance(
    async () => {
      const path = await newPath()
      const opened: { close(): void }[] = []
      const open = () => {
        const client = clientOf(path)
        opened.push(client)
        return sqliteStore({ client })
      }
      const admin = new Database(path)
      return {
        store: open(),
        open,
        remove: (election) => void admin.prepare('DELETE FROM tenure_leases WHERE election = ?').run(election),
        close: () => {
          for (const client of [...opened, admin]) client.close()
        },
      }
    },
    { leaseDurationMs: 500, patienceMs: 20_000 },
  )
  for (const { name, run } of cases) test.concurrent(name, run)
})
