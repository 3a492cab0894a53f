import type { PGlite } from '@electric-sql/pglite'
import { neon, type Pool as NeonPool } from '@neondatabase/serverless'
import { drizzle } from 'drizzle-orm/node-postgres'
import { drizzle as drizzleOverPostgres } from 'drizzle-orm/postgres-js'
import knex from 'knex'
import { Client, Pool, type PoolClient } from 'pg'
import postgres from 'postgres'
import { describe, expect, expectTypeOf, test } from 'vitest'
import { openStore } from '../../../src/stores/index.ts'
import {
  postgresStore,
  type PostgresClient,
  type PostgresListenClient,
  type PostgresQueryClient,
  type PostgresStoreOptions,
} from '../../../src/stores/postgres/index.ts'

// The type checker verifies this test.
test('postgresStore accepts the common clients unchanged', () => {
  expectTypeOf<Pool>().toExtend<PostgresClient>()
  expectTypeOf<Client>().toExtend<PostgresClient>()
  expectTypeOf<PoolClient>().toExtend<PostgresClient>()
  expectTypeOf<ReturnType<typeof postgres>>().toExtend<PostgresClient>()
  const sql = neon('postgres://user:password@host.example.com/database')
  expectTypeOf(sql).toExtend<PostgresClient>()
  expectTypeOf<NeonPool>().toExtend<PostgresClient>()
  expectTypeOf<PGlite>().toExtend<PostgresClient>()
  const overPool = drizzle({ client: new Pool() })
  expectTypeOf<(typeof overPool)['$client']>().toExtend<PostgresClient>()
  const overSql = drizzleOverPostgres({ client: postgres({ max: 1 }) })
  expectTypeOf<(typeof overSql)['$client']>().toExtend<PostgresClient>()
})

test('postgresStore accepts connections of pg and postgres for notifications', () => {
  expectTypeOf<Client>().toExtend<PostgresListenClient>()
  expectTypeOf<PoolClient>().toExtend<PostgresListenClient>()
  expectTypeOf<ReturnType<typeof postgres>>().toExtend<PostgresListenClient>()
})

test('postgresStore accepts knex with a three-line adapter', () => {
  const db = knex({ client: 'pg' })
  const client: PostgresQueryClient = {
    query: (text, values) =>
      db.raw(
        text.replace(/\$(\d+)/g, ':p$1'),
        Object.fromEntries(values.map((value, index) => [`p${index + 1}`, value])),
      ),
  }
  expect(postgresStore({ client })).toMatchObject({ expiry: 'observed' })
})

describe('postgresStore()', () => {
  const client = { query: async () => [] }

  test.each([
    [{}, /needs the option "client" \(a Pool or Client from "pg", .*\) or the option "connect"/],
    [{ client: {} }, /Option "client" is an object, but it must be a Pool or Client from "pg"/],
    [{ client: 'postgres://host' }, /Option "client" .*new Pool\({ connectionString: url }\) or openStore\(url\)/],
    [{ client, table: 'a"; drop table b; --' }, /Option "table"/],
    [{ client, table: 'a.b.c' }, /Option "table"/],
    [{ client, table: 'x'.repeat(55) }, /Option "table"/],
    [{ client, connect: {} }, /Option "connect"/],
    [{ client, createTable: 'no' }, /Option "createTable"/],
    [{ client, trustServerClock: 1 }, /Option "trustServerClock"/],
    [{ client, tabel: 'leases' }, /Did you mean "table"\?/],
  ])('postgresStore refuses %j', (options, message) => {
    expect(() => postgresStore(options as never)).toThrow(message)
  })

  test.each([
    ['as its options', (url: string) => url],
    ['as its client', (client: string) => ({ client })],
  ])('postgresStore does not show the password of a URL passed %s', (_, optionsOf) => {
    const options = optionsOf('postgres://app:hunter2@db.example.com/app?password=hunter2') as never
    const refused = expect.objectContaining({ message: expect.stringMatching(/^(?=.*db\.example\.com)(?!.*hunter2)/) })
    expect(() => postgresStore(options)).toThrow(refused)
  })

  const call = { signal: new AbortController().signal, timeoutMs: 100 }
  test.each<[string, (client: Client) => PostgresStoreOptions]>([
    ['client', (client) => ({ client })],
    ['connect', (client) => ({ connect: async () => client })],
  ])('postgresStore reports a Client passed by "%s" that was never connected', async (_, optionsOf) => {
    const store = postgresStore(optionsOf(new Client()))
    const refused = { code: 'INVALID_OPTION', message: expect.stringContaining('await client.connect() first') }
    await expect(store.read('payments', call)).rejects.toMatchObject(refused)
  })
})

describe('a PostgreSQL URL', () => {
  const refusal = (query: string) =>
    openStore(`postgres://app@db.example.com/app${query}`, { environment: {} }).catch((error: unknown) => error)

  test.each([
    ['?tabel=leases', '"tabel", which is not supported. Did you mean "table"?'],
    ['?Table=leases', '"Table", which is not supported. Did you mean "table"?'],
    ['?sslmode=require&sslrootcrt=a.pem', '"sslrootcrt", which is not supported. Did you mean "sslrootcert"?'],
    ['?schema=jobs', '"schema", which is not supported.'],
    ['?dbname=other', '"dbname", which is not supported.'],
    ['?table=one&table=two', '"table" twice'],
    ['#table=leases', '"%23"'],
  ])(
    'openStore refuses a PostgreSQL URL with %s, because other candidates would use another table',
    async (query, message) => {
      expect(await refusal(query)).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining(message) })
    },
  )

  test('openStore accepts the PostgreSQL parameters that hosting providers use', async () => {
    const query = '?sslmode=require&channel_binding=require&application_name=jobs&target_session_attrs=read-write'
    expect(await refusal(`${query}&connect_timeout=10&options=-c%20search_path%3Djobs`)).toHaveProperty('acquire')
  })
})
