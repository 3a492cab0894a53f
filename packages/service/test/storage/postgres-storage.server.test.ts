import { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { postgres } from '../../../../test/servers/postgres.ts'
import { start, type RunningServer } from '../../../../test/servers/server.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { PostgresStorageServer } from '../../src/storage/postgres-server.ts'
import { ServerStorage } from '../../src/storage/server-storage.ts'
import { conformanceCases } from './conformance.ts'
import { followerCases } from './follower-conformance.ts'
import { batchAfter, read, write } from './data-directories.ts'
import { newTable, openPostgres, postgresWorld } from './postgres-storage-fixture.ts'

const storages = { PostgresStorageServer, ServerStorage }

describeWith(postgres, 'a storage in PostgreSQL', (server) => {
  let other: RunningServer
  let admin: Pool
  beforeAll(async () => {
    other = await start(postgres)
    admin = new Pool({ connectionString: server().url, max: 4 })
    admin.on('error', () => {})
  })
  afterAll(async () => {
    await admin.end()
    await other.stop()
  })

  describe('conformance', () => {
    test.each([...conformanceCases, ...followerCases])('$name', async ({ run }) =>
      run(await postgresWorld(storages, server().url, admin, () => other.url)),
    )
  })

  const open = (table: string, url = server().url) => openPostgres(storages, url, table)

  test('a PostgreSQL storage with groups but without a head is refused', async () => {
    const table = newTable()
    const storage = await open(table)
    await write(storage, { id: 'a', record: { term: 5 } })
    await admin.query(`delete from ${table}_head`)
    await expect(open(table)).rejects.toThrow(/cannot be used: its head is missing/)
    await expect(storage.head()).rejects.toThrow(/its head is missing/)
    await expect(write(storage, { id: 'b', record: { term: 1 } })).rejects.toThrow(/its head is missing/)
    await expect(storage.check()).rejects.toThrow(/cannot be written/)
  })

  test('a damaged record or head in PostgreSQL is an error', async () => {
    const table = newTable()
    const storage = await open(table)
    await write(storage, { id: 'a', record: { term: 5 } }, { id: 'b', record: { term: 5 } })
    await admin.query(`update ${table}_groups set record = replace(record, '"term":5', '"term":4') where id = 'a'`)
    await expect(read(storage)).rejects.toThrow(/the record of group "a" is damaged/)
    await admin.query(`update ${table}_head set head = replace(head, '"restores":0', '"restores":1')`)
    await expect(storage.head()).rejects.toThrow(/its head is damaged/)
  })

  test('tables are in the schema that the URL names and are independent of other schemas', async () => {
    await admin.query('create schema if not exists elsewhere')
    const table = newTable()
    const one = await open(table)
    const two = await open(`elsewhere.${table}`)
    await write(one, { id: 'a', record: { term: 1 } })
    expect(await read(two)).toEqual([])
    await expect(open('a.b.c')).rejects.toThrow(/^table "a\.b\.c" is not valid/)
    await expect(open('x";drop')).rejects.toThrow(/^table .* is not valid/)
  })

  test('a role with rights on existing tables can use the storage but cannot create tables', async () => {
    const table = newTable()
    await (await open(table)).close()
    await admin.query(
      `create role poor login; grant select, insert, update on ${table}_head, ${table}_groups, ${table}_batches to poor`,
    )
    const url = server().url.replace('postgres@', 'poor@')
    const storage = await open(table, url)
    await write(storage, { id: 'a', record: { term: 1 } })
    await storage.check()
    expect(await storage.history()).toMatchObject({ isComplete: true })
    await expect(open(newTable(), url)).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
  })

  test('nothing is written while synchronous_commit is off, and the error says so', async () => {
    const table = newTable()
    const careful = await open(table)
    await admin.query('create role careless login superuser; alter role careless set synchronous_commit = off')
    const url = server().url.replace('postgres@', 'careless@')
    await expect(open(table, url)).rejects.toThrow(/cannot be used: synchronous_commit is off/)
    await admin.query('alter role careless set synchronous_commit = on')
    const storage = await open(table, url)
    await write(storage, { id: 'a', record: { term: 1 } })
    await admin.query('alter role careless set synchronous_commit = off')
    await admin.query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'careless'`)
    const head = await careful.head()
    await expect
      .poll(() => storage.append(head, batchAfter(head, [])).catch((error: Error) => error.message))
      .toMatch(/PostgreSQL cannot be used: synchronous_commit is off/)
    await expect(storage.check()).rejects.toThrow(/synchronous_commit is off/)
    expect(await careful.head()).toEqual(head)
  })

  test('a statement that waits for a hanging one times out, and connections do not accumulate', async () => {
    const table = newTable()
    const storage = await open(table)
    const head = await storage.head()
    const hanging = await admin.connect()
    onTestFinished(() => hanging.release(true))
    await hanging.query('begin')
    await hanging.query(`update ${table}_head set head = head`)
    const waiting = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%${table}%'`
    for (let tries = 0; tries < 2; tries++) {
      await expect(storage.append(head, batchAfter(head, []))).rejects.toThrow(/lock timeout/)
      expect((await admin.query(waiting)).rows).toHaveLength(0)
    }
    await hanging.query('rollback')
    await write(storage, { id: 'a', record: { term: 1 } })
  })

  test('one of two concurrent appends is fenced', async () => {
    const table = newTable()
    const [one, two] = await Promise.all([open(table), open(table)])
    for (let round = 0; round < 20; round++) {
      const head = await one.head()
      const outcomes = await Promise.all(
        [one, two].map((each, index) =>
          each.append(head, batchAfter(head, [{ id: `r${round}`, record: { term: index + 1 } }])),
        ),
      )
      expect(outcomes.toSorted()).toEqual(['done', 'fenced'])
    }
    expect(await read(one)).toHaveLength(20)
  })
})
