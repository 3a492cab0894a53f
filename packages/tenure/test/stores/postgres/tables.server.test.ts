import { Pool } from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { postgres } from '../../../../../test/servers/postgres.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import type { AcquireClaim, LeaseStore } from '../../../src/engine/lease-store.ts'
import { postgresSchema, postgresStore, type PostgresStoreOptions } from '../../../src/stores/postgres/index.ts'

const { signal } = new AbortController()
const call = { signal, timeoutMs: 5_000 }

function claimOf(attempt: string): AcquireClaim {
  return { election: 'payments', holder: 'ada', attempt, leaseDurationMs: 15_000, afterTerm: 0, metadata: {} }
}

describeWith(postgres, 'tables of postgresStore', (server) => {
  let admin: Pool
  beforeAll(() => {
    admin = new Pool({ connectionString: server().url, max: 4 })
  })
  afterAll(() => admin.end())
  const open = (table: string, options: Partial<PostgresStoreOptions> = {}): LeaseStore => {
    const store = postgresStore({ client: admin, table, ...options })
    onTestFinished(async () => store.close?.())
    return store
  }
  const poolOf = (user: string, options = '') => {
    const pool = new Pool({ connectionString: server().url.replace('postgres@', `${user}@`), max: 2, options })
    onTestFinished(() => pool.end())
    return pool
  }
  const relationsLike = async (pattern: string) => {
    const { rows } = await admin.query('select relname from pg_class where relname like $1', [pattern])
    return rows
  }

  test('roles with different search paths use the same tables, so that only one of them leads', async () => {
    await admin.query('create role app login; create schema app authorization app; create role worker login')
    await admin.query('grant create on schema public to app, worker')
    const [one, other] = [open('shared', { client: poolOf('app') }), open('shared', { client: poolOf('worker') })]
    expect(await one.acquire(claimOf('one'), call)).toMatchObject({ ok: true })
    await admin.query('grant select, insert, update on public.shared, public.shared_terms to worker')
    await admin.query('grant select on public.shared_meta to worker; grant usage on sequence shared_version to worker')
    expect(await other.acquire(claimOf('other'), call)).toMatchObject({ ok: false, record: { attempt: 'one' } })
    const elsewhere = open('shared', { client: poolOf('postgres', '-c search_path=app') })
    expect(await elsewhere.acquire(claimOf('third'), call)).toMatchObject({ ok: false, record: { attempt: 'one' } })
  })

  test.each([
    ['all three were dropped', 'drop table TABLE, TABLE_terms, TABLE_meta'],
    [
      'all three and the sequence were dropped',
      'drop table TABLE, TABLE_terms, TABLE_meta; drop sequence TABLE_version',
    ],
    ['the table of the format was dropped', 'drop table TABLE_meta'],
    ['the tables of records and format were dropped', 'drop table TABLE, TABLE_meta'],
  ])('a claim and postgresSchema() recreate the missing tables after %s', async (_, drop) => {
    for (const table of ['by_claim', 'by_schema']) {
      const before = open(table)
      expect(await before.acquire(claimOf('before'), call)).toMatchObject({ ok: true })
      await admin.query(drop.replaceAll('TABLE', table))
      if (table === 'by_schema') await admin.query(postgresSchema({ table }))
      const after = { ...claimOf('after'), afterTerm: 1, expiredVersion: '' }
      expect(await open(table).acquire({ ...after, election: 'other' }, call)).toMatchObject({ ok: true })
      await admin.query(`drop table ${table}, ${table}_terms, ${table}_meta; drop sequence ${table}_version`)
      await admin.query(`drop function ${table}_notify`)
    }
  })

  test('the store creates nothing when one of its names is taken', async () => {
    await admin.query('create table taken_version (id int)')
    const refused = { code: 'RECORD_INVALID', message: expect.stringMatching(/NAME\): one of the names is taken/) }
    await expect(open('taken').acquire(claimOf('any'), call)).rejects.toMatchObject(refused)
    expect(await relationsLike('taken%')).toEqual([{ relname: 'taken_version' }])
  })

  test('a claim creates the tables, and read-only calls do not', async () => {
    const connection = poolOf('postgres')
    const store = open('unseen', { client: undefined, connect: () => connection.connect() })
    expect(await store.read('payments', call)).toBeUndefined()
    expect(await store.list?.({}, call)).toMatchObject({ records: [] })
    const changes = store.watch?.('payments', { signal })[Symbol.asyncIterator]()
    onTestFinished(async () => void (await changes?.return?.()))
    expect(await changes?.next()).toEqual({ done: false, value: undefined })
    const next = changes?.next()
    expect(await relationsLike('unseen%')).toEqual([])
    await open('unseen').acquire(claimOf('first'), call)
    expect(await next).toMatchObject({ value: { attempt: 'first' } })
  })

  test('the store names the permission that a role lacks, and postgresSchema() creates the schema', async () => {
    await admin.query('create role guest login')
    const refused = open('barred', { client: poolOf('guest') }).acquire(claimOf('any'), call)
    await expect(refused).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
      message: expect.stringMatching(
        /"public.barred".* does not exist, and the role may not create it in schema "public"/,
      ),
    })
    await admin.query(postgresSchema({ table: 'fresh.leases', role: 'guest' }))
    const guest = open('fresh.leases', { client: poolOf('guest') })
    expect(await guest.acquire(claimOf('guest'), call)).toMatchObject({ ok: true })
  })
})
