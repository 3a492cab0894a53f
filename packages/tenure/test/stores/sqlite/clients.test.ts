import { createClient, type Client } from '@libsql/client'
import type BetterSqlite3 from 'better-sqlite3'
import { drizzle } from 'drizzle-orm/libsql'
import type Libsql from 'libsql'
import { expect, expectTypeOf, onTestFinished, test } from 'vitest'
import {
  sqliteStore,
  type LibsqlClient,
  type SqliteClient,
  type SqliteDatabase,
} from '../../../src/stores/sqlite/index.ts'
import { connect, newPath } from './fixtures.ts'

// The type checker verifies this test. The types of node:sqlite are checked in test/typescript.server.test.ts.
test('sqliteStore accepts the common clients unchanged', async () => {
  expectTypeOf<BetterSqlite3.Database>().toExtend<SqliteDatabase>()
  expectTypeOf<Libsql.Database>().toExtend<SqliteDatabase>()
  expectTypeOf<Client>().toExtend<LibsqlClient>()
  const path = await newPath()
  expect(sqliteStore({ client: connect(path) })).toMatchObject({ expiry: 'observed', keepsTerms: true })
  const client = createClient({ url: `file:${path}` })
  onTestFinished(() => client.close())
  const overClient = drizzle({ client })
  expectTypeOf<(typeof overClient)['$client']>().toExtend<SqliteClient>()
  expect(sqliteStore({ client: overClient.$client })).toMatchObject({ expiry: 'observed', keepsTerms: true })
})
