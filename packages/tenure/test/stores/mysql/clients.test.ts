import { drizzle } from 'drizzle-orm/mysql2'
import knex from 'knex'
import { createPool as createCallbackPool, type Connection, type Pool, type PoolConnection } from 'mysql2'
import { createPool, type Connection as PromiseConnection, type Pool as PromisePool } from 'mysql2/promise'
import { describe, expect, expectTypeOf, onTestFinished, test } from 'vitest'
import { mysqlSchema, mysqlStore, type MysqlClient, type MysqlStoreOptions } from '../../../src/stores/mysql/index.ts'
import { findingsOf } from '../../../src/stores/mysql/diagnostics.ts'

// The type checker verifies this test.
test('mysqlStore accepts the common clients unchanged', () => {
  expectTypeOf<Pool>().toExtend<MysqlClient>()
  expectTypeOf<PoolConnection>().toExtend<MysqlClient>()
  expectTypeOf<Connection>().toExtend<MysqlClient>()
  expectTypeOf<PromisePool>().toExtend<MysqlClient>()
  expectTypeOf<PromiseConnection>().toExtend<MysqlClient>()
  const pool = createPool({})
  onTestFinished(() => pool.end())
  const overPool = drizzle({ client: pool })
  expectTypeOf<(typeof overPool)['$client']>().toExtend<MysqlClient>()
  expect(mysqlStore({ client: overPool.$client })).toMatchObject({ expiry: 'observed' })
  const withCallbacks = createCallbackPool({})
  onTestFinished(() => withCallbacks.promise().end())
  expect(mysqlStore({ client: withCallbacks })).toMatchObject({ keepsTerms: true })
})

test('mysqlStore accepts knex with a one-line adapter', () => {
  const db = knex({ client: 'mysql2' })
  const client: MysqlClient = { execute: (sql, values) => db.raw(sql, values) }
  expect(mysqlStore({ client })).toMatchObject({ expiry: 'observed' })
})

describe('mysqlStore()', () => {
  const client = { execute: async () => [] }

  test.each([
    [{}, /needs the option "client": a pool or connection from "mysql2"/],
    [{ client: {} }, /Option "client" is an object, but it must be a pool or connection from "mysql2"/],
    [{ client: 'mysql://host/app' }, /Option "client" .*createPool\(url\) of "mysql2" or openStore\(url\)/],
    [{ client, table: 'a`; drop table b; --' }, /Option "table"/],
    [{ client, table: 'a.b.c' }, /Option "table"/],
    [{ client, table: 'a'.repeat(65) }, /Option "table"/],
    [{ client, table: '' }, /Option "table"/],
    [{ client, createTable: 'yes' }, /Option "createTable"/],
    [{ client, prefix: 'tenure' }, /"prefix"/],
  ])('mysqlStore(%j) is refused', (options, message) => {
    const open = () => mysqlStore(options as unknown as MysqlStoreOptions)
    expect(open).toThrow(TypeError)
    expect(open).toThrow(message)
  })

  test('mysqlSchema returns one statement for the given table and database', () => {
    expect(mysqlSchema({ table: 'jobs.leases' })).toMatch(/^create table if not exists `jobs`\.`leases` \(.*InnoDB;\n$/)
    expect(() => mysqlSchema({ table: 'a b' })).toThrow(/Option "table"/)
  })
})

describe('findings about a MySQL server', () => {
  const mysql = { version: '8.0.36', log_bin: 'ON', sync_binlog: '1', innodb_lock_wait_timeout: '1' }
  const semi = {
    rpl_semi_sync_source_enabled: 'ON',
    rpl_semi_sync_source_wait_point: 'AFTER_SYNC',
    rpl_semi_sync_source_timeout: '4294967295',
  }
  test.each<[Record<string, string>, number, string[]]>([
    [mysql, 0, []],
    [mysql, 2, ['unsafe It waits for none of its replicas (2)']],
    [{ ...mysql, ...semi }, 2, []],
    [
      { ...mysql, ...semi, rpl_semi_sync_source_timeout: '10000' },
      2,
      ['unsafe Semi-synchronous replication waits at most 10000 ms for a replica.'],
    ],
    [
      { ...mysql, ...semi, rpl_semi_sync_source_wait_point: 'AFTER_COMMIT' },
      1,
      ['unsafe Semi-synchronous replication waits AFTER_COMMIT'],
    ],
    [{ ...mysql, sync_binlog: '100' }, 0, ['unsafe sync_binlog is 100']],
    [{ ...mysql, log_bin: 'OFF', sync_binlog: '0' }, 0, []],
    [{ ...mysql, innodb_flush_method: 'nosync' }, 0, ['unsafe innodb_flush_method is nosync']],
    [{ ...mysql, innodb_lock_wait_timeout: '50' }, 0, ['tight innodb_lock_wait_timeout is 50 s']],
    [{ version: '10.11.6-MariaDB', innodb_lock_wait_timeout: '50' }, 0, []],
    [{ version: '10.11.6-MariaDB', wsrep_on: 'ON', wsrep_sync_wait: '0' }, 0, ['tight wsrep_sync_wait is 0']],
    [
      {
        version: '10.11.6-MariaDB',
        wsrep_on: 'ON',
        wsrep_sync_wait: '7',
        wsrep_provider_options: 'a = 1; pc.ignore_sb = true; b = 2',
      },
      0,
      ['unsafe pc.ignore_sb = true lets both sides of a split cluster elect a leader.'],
    ],
    [
      { ...mysql, group_replication_group_name: 'aa', group_replication_consistency: 'EVENTUAL' },
      0,
      ['tight group_replication_consistency is EVENTUAL'],
    ],
  ])('settings %j with %d replicas give the right findings', (settings, replicas, expected) => {
    const findings = findingsOf(new Map(Object.entries(settings)), replicas)
    expect(findings.map(({ risk, text }) => `${risk} ${text.split(/: |(?<=[.]) /)[0]}`)).toEqual(expected)
  })
})
