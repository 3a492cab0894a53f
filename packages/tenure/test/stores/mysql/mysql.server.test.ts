import { createPool, type Pool } from 'mysql2/promise'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { mariadb } from '../../../../../test/servers/mariadb.ts'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import { absentVersion, type LeaseRecord, type LeaseStore, type Outcome } from '../../../src/engine/lease-store.ts'
import { openStore } from '../../../src/stores/index.ts'
import { mysqlSchema, mysqlStore, type MysqlExecutor, type MysqlStoreOptions } from '../../../src/stores/mysql/index.ts'
import { call, claimOf, connectTo, granted, late, short, waitingForLocks } from './scene.ts'

describeWith(mariadb, 'mysqlStore', (server) => {
  let pool: Pool
  let tables = 0
  let table = ''
  beforeAll(() => {
    pool = createPool({ uri: server().url, connectionLimit: 10 })
  })
  afterAll(() => pool.end())
  beforeEach(() => {
    table = `leases_${++tables}`
  })
  const open = (options: Partial<MysqlStoreOptions> = {}): LeaseStore => mysqlStore({ client: pool, table, ...options })
  /** A pool that records its statements. */
  const noting = (texts: string[]): MysqlExecutor => ({
    execute(sql, values) {
      texts.push(sql)
      return pool.execute(sql, values)
    },
  })
  const rowsOf = async (sql: string) => (await pool.query(sql))[0] as Record<string, unknown>[]

  describe('mysqlStore conforms with a pool', () => {
    const store = () => mysqlStore({ client: pool, table: 'conforming' })
    const remove = async (election: string) => {
      await pool.execute('delete from conforming where id = ?', [`lease/${election}`])
    }
    const cases = storeConformance(() => ({ store: store(), open: store, remove }), { leaseDurationMs: 1_000 })
    for (const { name, run } of cases) test.concurrent(name, run)
  })

  describe('statements of mysqlStore', () => {
    test('a first grant, a renewal and a release take one statement each, once the table was checked', async () => {
      const texts: string[] = []
      const store = open({ client: noting(texts) })
      await store.acquire(claimOf({ election: 'other' }), call)
      const counted = async (verb: () => Promise<Outcome>) => {
        texts.length = 0
        const record = granted(await verb())
        expect(texts).toHaveLength(1)
        return record
      }
      const first = await counted(() => store.acquire(claimOf(), call))
      const renewed = await counted(() => store.renew(held(first), call))
      const freed = await counted(() => store.release(held(renewed), call))
      await counted(() => store.acquire(claimOf({ attempt: 'second', afterTerm: freed.term }), call))
    })

    test.each(['FOUND_ROWS', '-FOUND_ROWS'])('renewals succeed whether or not matched rows count: %s', async (flag) => {
      const client = createPool({ uri: server().url, flags: [flag] })
      onTestFinished(() => client.end())
      const store = open({ client })
      let record = granted(await store.acquire(claimOf(), call))
      const claim = { ...held(record), writeId: 'same' }
      for (let count = 0; count < 3; count++) {
        record = granted(await store.renew({ ...claim, version: record.version }, call))
      }
      // Nothing but the version differs between the last two records.
      expect(await store.renew({ ...claim, version: 'other' }, call)).toMatchObject({ ok: false })
    })

    test('a refused call returns the winner, not an older state, at every isolation level', async () => {
      const levels = ['read uncommitted', 'read committed', 'repeatable read', 'serializable']
      for (const [index, level] of levels.entries()) {
        const client = await connectTo(server().url)
        await client.query(`set session transaction isolation level ${level}`)
        const [one, two] = [open({ client }), open()]
        const election = `e${index}`
        const record = granted(await one.acquire(claimOf({ election }), call))
        await two.read(election, call)
        // The row is locked, so that both statements begin before either has changed it.
        const holder = await connectTo(server().url)
        await holder.query('begin')
        await holder.query(`update ${table} set confirmations = 1 where id = 'lease/${election}'`)
        const renewal = one.renew(held(record), call)
        await waitingForLocks(pool, 1)
        const takeover = claimOf({ election, attempt: 'late', afterTerm: 1, expiredVersion: record.version })
        const acquired = two.acquire(takeover, call)
        await waitingForLocks(pool, 2)
        await holder.query('rollback')
        const [won, lost] = (await Promise.all([renewal, acquired])).toSorted((a, b) => Number(b.ok) - Number(a.ok))
        const newest = granted(won as Outcome)
        expect(lost, level).toMatchObject({ ok: false, highestTerm: newest.term, record: { version: newest.version } })
        await holder.end()
        await client.end()
      }
    })

    test('a deadlock counts as a write that was not done', async () => {
      const store = open()
      const record = granted(await store.acquire(claimOf(), call))
      await pool.query(`create table weight_${table} (id int primary key) engine = InnoDB`)
      const holder = await connectTo(server().url)
      await holder.query('begin')
      // The server ends the transaction that has changed fewer rows.
      await holder.query(`insert into weight_${table} select seq from seq_1_to_100`)
      await holder.query(`update ${table} set confirmations = 1 where id = 'term/payments'`)
      const claim = claimOf({ attempt: 'second', afterTerm: 1, expiredVersion: record.version })
      const takeover = store.acquire(claim, call)
      await waitingForLocks(pool, 1)
      await holder.query(`update ${table} set confirmations = 1 where id = 'lease/payments'`)
      await holder.query('commit')
      await holder.end()
      expect(granted(await takeover)).toMatchObject({ attempt: 'second', term: 2 })
    })

    test('a lock of another session ends a call before its deadline, and the write is not done later', async () => {
      const store = open()
      const record = granted(await store.acquire(claimOf(), call))
      const holder = await connectTo(server().url)
      await holder.query('begin')
      await holder.query(`update ${table} set confirmations = 1 where id = 'lease/payments'`)
      const blocked = { code: 'TIMEOUT', retryable: true, message: expect.stringContaining('holds a lock') }
      await expect(store.renew(held(record), short)).rejects.toMatchObject(blocked)
      await expect(open().read('payments', short)).rejects.toMatchObject(blocked)
      await holder.query('rollback')
      await holder.end()
      expect(await open().read('payments', call)).toEqual(record)
    })

    test('a lock on the whole table ends a call as well', async () => {
      const store = open()
      const record = granted(await store.acquire(claimOf(), call))
      const holder = await connectTo(server().url)
      await holder.query(`lock tables ${table} write`)
      const blocked = { code: 'TIMEOUT', retryable: true, message: expect.stringContaining('holds a lock') }
      await expect(store.renew(held(record), short)).rejects.toMatchObject(blocked)
      await holder.end()
      granted(await store.renew(held(record), call))
    })
  })

  describe('mysqlStore when its table is changed by hand', () => {
    test('a candidate that saw the last term gets a higher term after TRUNCATE', async () => {
      const record = granted(await open().acquire(claimOf({ afterTerm: 6, expiredVersion: absentVersion }), call))
      expect(record.term).toBe(7)
      await pool.query(`truncate ${table}`)
      expect(await open().acquire(claimOf({ attempt: 'x', afterTerm: 7 }), call)).toMatchObject({ ok: false })
      const waited = claimOf({ attempt: 'y', afterTerm: 7, expiredVersion: absentVersion })
      expect(granted(await open().acquire(waited, call)).term).toBe(8)
    })

    test('a row without a record, which a crash may leave behind, grants nothing and is not listed', async () => {
      const store = open()
      const record = granted(await store.acquire(claimOf(), call))
      await pool.query(`update ${table} set record = '-', version = 'v' where id = 'lease/payments'`)
      expect(await open().read('payments', call)).toBeUndefined()
      expect(await open().list?.({}, call)).toEqual({ records: [] })
      const fresh = await open().acquire(claimOf({ attempt: 'fresh' }), call)
      expect(fresh).toEqual({ ok: false, highestTerm: 1, retryAfterMs: 15_000 })
      const waited = claimOf({ attempt: 'waited', afterTerm: 1, expiredVersion: absentVersion })
      expect(granted(await open().acquire(waited, call)).term).toBe(2)
      expect(await store.renew(held(record), call)).toMatchObject({ ok: false, highestTerm: 2 })
    })

    test('a deleted row of the highest term is written again by the next grant', async () => {
      const record = granted(await open().acquire(claimOf({ afterTerm: 4, expiredVersion: absentVersion }), call))
      await pool.query(`delete from ${table} where id = 'term/payments'`)
      const renewed = granted(await open().renew(held(record), call))
      await pool.query(`delete from ${table} where id = 'lease/payments'`)
      expect(renewed.term).toBe(5)
      expect(await open().acquire(claimOf({ attempt: 'x' }), call)).toMatchObject({ ok: false, highestTerm: 5 })
    })

    test('a recorded term is not granted again when someone replaces the record with one of a lower term', async () => {
      granted(await open().acquire(claimOf({ afterTerm: 8, expiredVersion: absentVersion }), call))
      await pool.query(`update ${table} set version = 'v', record = replace(replace(record, '"term":9', '"term":3'),
        '"released":false', '"released":true') where id = 'lease/payments'`)
      const again = await open().acquire(claimOf({ attempt: 'again', afterTerm: 3 }), call)
      expect(again).toMatchObject({ ok: false, highestTerm: 9, record: { term: 3 } })
      expect(granted(await open().acquire(claimOf({ attempt: 'x', afterTerm: 9 }), call)).term).toBe(10)
    })

    test('the store creates its table again after DROP TABLE', async () => {
      const store = open()
      const record = granted(await store.acquire(claimOf(), call))
      await pool.query(`drop table ${table}`)
      await expect(store.renew(held(record), call)).rejects.toMatchObject({ code: 'NOT_FOUND', retryable: true })
      expect(await store.renew(held(record), call)).toMatchObject({ ok: false })
      const waited = claimOf({ attempt: 'waited', afterTerm: 1, expiredVersion: absentVersion })
      expect(granted(await store.acquire(waited, call)).term).toBe(2)
    })

    test('a value of another program is reported, and nobody is elected over it', async () => {
      const record = granted(await open().acquire(claimOf(), call))
      granted(await open().acquire(claimOf({ election: 'other' }), call))
      await pool.query(`update ${table} set record = 'not a record', version = 'x' where id = 'lease/payments'`)
      const foreign = { code: 'RECORD_INVALID', message: expect.stringContaining('"payments"') }
      await expect(open().read('payments', call)).rejects.toMatchObject(foreign)
      const takeover = claimOf({ attempt: 'x', afterTerm: 1, expiredVersion: record.version })
      await expect(open().acquire(takeover, call)).rejects.toMatchObject(foreign)
      const page = await open().list?.({}, call)
      expect(page).toMatchObject({ records: [{ election: 'other' }], problems: [expect.stringContaining('payments')] })
    })

    test('names that differ in case, accents, or trailing spaces are different elections', async () => {
      const names = ['a', 'A', 'a ', 'á', 'a\u0301', 'ß', 'ss', '😀', '😁']
      const records: LeaseRecord[] = []
      for (const [index, election] of names.entries()) {
        records.push(granted(await open().acquire(claimOf({ election, attempt: `a${index}` }), call)))
      }
      const page = await open().list?.({ limit: 1_000 }, call)
      expect(page?.records.map(({ election }) => election).toSorted()).toEqual(names.toSorted())
      for (const record of records) expect(await open().read(record.election, call)).toEqual(record)
    })
  })

  describe('deadlines of mysqlStore', () => {
    const hung = async () => {
      const proxy = await startProxy(server().port)
      onTestFinished(() => proxy.stop())
      return { proxy, url: server().url.replace(String(server().port), String(proxy.port)) }
    }
    const openAt = async (url: string) => {
      const store = await openStore(`${url}?table=${table}`, { environment: {} })
      onTestFinished(() => store.close?.())
      return store
    }

    test("a pool's connection that hangs is closed, and the next renewal uses another", async () => {
      const { proxy, url } = await hung()
      const behind = createPool({ uri: url, connectionLimit: 1 })
      onTestFinished(() => behind.end())
      const store = open({ client: behind })
      const record = granted(await store.acquire(claimOf(), call))
      proxy.freezeExisting()
      await expect(store.renew(held(record), late)).rejects.toMatchObject({ code: 'TIMEOUT', retryable: true })
      granted(await store.renew(held(record), call))
      expect(proxy.opened).toBe(2)
    })

    test("the store's own connection that hangs or is lost is replaced", async () => {
      const { proxy, url } = await hung()
      const store = await openAt(url)
      const record = granted(await store.acquire(claimOf(), call))
      proxy.freezeExisting()
      await expect(store.renew(held(record), late)).rejects.toMatchObject({ code: 'TIMEOUT', retryable: true })
      const renewed = granted(await store.renew(held(record), call))
      expect(proxy.opened).toBe(2)
      proxy.reset()
      const isBack = () =>
        store.read('payments', call).then(
          () => true,
          () => false,
        )
      await expect.poll(isBack).toBe(true)
      granted(await store.renew(held(renewed), call))
      expect(proxy.opened).toBe(3)
    })

    test('a claim that timed out waiting for an exhausted pool is never sent', async () => {
      const small = createPool({ uri: server().url, connectionLimit: 1 })
      onTestFinished(() => small.end())
      const store = open({ client: small })
      await store.acquire(claimOf(), call)
      const busy = await small.getConnection()
      await expect(store.acquire(claimOf({ election: 'drained' }), late)).rejects.toMatchObject({ code: 'TIMEOUT' })
      busy.release()
      // Every call that waited for the connection has used it by now.
      await small.query('select 1')
      expect(await open().read('drained', call)).toBeUndefined()
    })

    test('acquire finds its own grant after its answer was lost, and makes it durable first', async () => {
      const { proxy, url } = await hung()
      await pool.query(mysqlSchema({ table }))
      const store = await openAt(url)
      // Afterwards the statement is prepared on the connection, so that the next claim sends it at once.
      const brief = { ...call, timeoutMs: 1_900 }
      granted(await store.acquire(claimOf({ election: 'any', attempt: 'any' }), brief))
      proxy.set('blackhole', 'to-client')
      const claim = claimOf()
      await expect(store.acquire(claim, brief)).rejects.toMatchObject({ code: 'TIMEOUT' })
      proxy.set('pass')
      await expect.poll(async () => (await rowsOf(`select * from ${table}`)).length).toBe(4)
      expect(await store.acquire(claim, call)).toMatchObject({ ok: true, record: { attempt: claim.attempt, term: 1 } })
      expect(await rowsOf(`select confirmations from ${table} where id = 'lease/payments'`)).toEqual([
        { confirmations: 1 },
      ])
    })
  })

  test('many concurrent claims create the table once', async () => {
    const stores = Array.from({ length: 8 }, () => open())
    const claims = stores.map((store, index) => store.acquire(claimOf({ attempt: `a${index}` }), call))
    expect((await Promise.all(claims)).filter(({ ok }) => ok)).toHaveLength(1)
    expect(await rowsOf(`select id from ${table}`)).toHaveLength(2)
  })

  test('leases and terms survive a crash of the server', async () => {
    const record = granted(await open().acquire(claimOf(), call))
    await server().restart('SIGKILL')
    expect(await open().read(record.election, call)).toEqual(record)
    granted(await open().renew(held(record), call))
  })
})
