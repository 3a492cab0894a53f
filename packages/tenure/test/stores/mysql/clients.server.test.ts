import { drizzle } from 'drizzle-orm/mysql2'
import { sql as drizzleSql } from 'drizzle-orm'
import knex from 'knex'
import { createConnection, createPool } from 'mysql2'
import { createConnection as connect, createPool as createPromisePool } from 'mysql2/promise'
import { expect, onTestFinished, test } from 'vitest'
import { mariadb } from '../../../../../test/servers/mariadb.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { LeaseStore } from '../../../src/engine/lease-store.ts'
import { mysqlStore, type MysqlClient } from '../../../src/stores/mysql/index.ts'
import { call, claimOf, granted } from './scene.ts'

const claim = claimOf({ metadata: { zone: 'Zürich ? :p1 $1 \\' } })

/** Calls every method once, with two stores. */
async function goThrough(one: LeaseStore, two: LeaseStore): Promise<void> {
  const first = granted(await one.acquire(claim, call))
  expect(await two.read(claim.election, call)).toEqual(first)
  expect(await two.acquire({ ...claim, attempt: 'other' }, call)).toEqual({ ok: false, record: first, highestTerm: 1 })
  const renewed = granted(await one.renew(held(first), call))
  expect(await two.release(held(first), call)).toMatchObject({ ok: false, record: renewed })
  granted(await one.release(held(renewed), call))
  const last = granted(await two.acquire({ ...claim, attempt: 'other', afterTerm: 1 }, call))
  expect(last.term).toBe(2)
  expect(await one.list?.({}, call)).toMatchObject({ records: [{ term: 2, metadata: claim.metadata }] })
  const released = granted(await two.release(held(last), call))
  expect(await one.forget?.({ election: claim.election, version: released.version, withTerm: true }, call)).toEqual({
    ok: true,
  })
}

describeWith(mariadb, 'mysqlStore with other clients', (server) => {
  const pooled = () => {
    const pool = createPromisePool({ uri: server().url })
    onTestFinished(() => pool.end())
    return pool
  }
  const clients: Record<string, () => MysqlClient | Promise<MysqlClient>> = {
    'a pool of mysql2 with callbacks'() {
      const pool = createPool({ uri: server().url })
      onTestFinished(() => pool.promise().end())
      return pool
    },
    'a connection of mysql2 with callbacks'() {
      const connection = createConnection({ uri: server().url })
      onTestFinished(() => connection.promise().end())
      return connection
    },
    async 'a connection of mysql2'() {
      const connection = await connect({ uri: server().url })
      onTestFinished(() => connection.end())
      return connection
    },
    async 'a client that returns values as Buffers and numbers as text'() {
      const connection = await connect({ uri: server().url, typeCast: false, supportBigNumbers: true })
      onTestFinished(() => connection.end())
      return { execute: (sql, values) => connection.query(sql, values) }
    },
    knex() {
      const db = knex({ client: 'mysql2', connection: server().url })
      onTestFinished(() => db.destroy())
      return { execute: (sql, values) => db.raw(sql, values) }
    },
    'the pool of drizzle': () => drizzle({ client: pooled() }).$client,
    drizzle() {
      const db = drizzle({ client: pooled() })
      return {
        execute(sql, values) {
          const parts = sql.split('?').map((text, index) => [drizzleSql.raw(text), values[index]] as const)
          const pieces = parts.flatMap(([text, value]) => (value === undefined ? [text] : [text, drizzleSql`${value}`]))
          return db.execute(drizzleSql.join(pieces))
        },
      }
    },
    'the raw queries of a client like that of Prisma'() {
      const pool = pooled()
      // Prisma returns rows, or the number of affected rows, and wraps the number of an error.
      const run = async (sql: string, values: string[]) => {
        try {
          return (await pool.execute(sql, values))[0]
        } catch (error) {
          const code = String((error as { errno?: number }).errno)
          throw Object.assign(new Error('Raw query failed.'), { code: 'P2010', meta: { code, message: String(error) } })
        }
      }
      const prisma = {
        $queryRawUnsafe: async (sql: string, ...values: string[]) => (await run(sql, values)) as unknown[],
        $executeRawUnsafe: async (sql: string, ...values: string[]) =>
          ((await run(sql, values)) as { affectedRows: number }).affectedRows,
      }
      const isQuery = /^(set statement .* for )?(select|show)\b/
      return {
        execute: (sql, values) =>
          isQuery.test(sql) ? prisma.$queryRawUnsafe(sql, ...values) : prisma.$executeRawUnsafe(sql, ...values),
      }
    },
  }
  test.each(Object.entries(clients))('every method of mysqlStore works with %s', async (name, clientOf) => {
    const client = await clientOf()
    const table = `leases_${Object.keys(clients).indexOf(name)}`
    await goThrough(mysqlStore({ client, table }), mysqlStore({ client, table }))
  })

  test('a client that returns rows as arrays is refused', async () => {
    const pool = createPromisePool({ uri: server().url, rowsAsArray: true })
    onTestFinished(() => pool.end())
    const refused = { code: 'RECORD_INVALID', message: expect.stringContaining('rows as objects') }
    await expect(mysqlStore({ client: pool }).acquire(claim, call)).rejects.toMatchObject(refused)
  })

  test('a client that returns neither rows nor a count is refused', async () => {
    const client = { execute: async () => undefined }
    const refused = { code: 'INVALID_OPTION', message: expect.stringContaining('neither rows nor') }
    await expect(mysqlStore({ client }).acquire(claim, call)).rejects.toMatchObject(refused)
  })
})
