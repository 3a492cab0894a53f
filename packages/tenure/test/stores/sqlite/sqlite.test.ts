import { copyFileSync, existsSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createClient } from '@libsql/client'
import Database from 'libsql'
import PromiseDatabase from 'libsql/promise'
import { describe, expect, onTestFinished, test } from 'vitest'
import { held } from '../../../../testing/src/conformance/scene.ts'
import {
  sqliteSchema,
  sqliteStore,
  type SqliteClient,
  type SqliteStoreOptions,
} from '../../../src/stores/sqlite/index.ts'
import { openStore } from '../../../src/stores/index.ts'
import { pathToFileURL } from 'node:url'
import { call, claimOf, connect, granted, newPath, openAt, short } from './fixtures.ts'

describe('claims on one database', () => {
  test('one of 16 racing candidates wins, each on its own connection', async () => {
    const path = await newPath()
    const stores = Array.from({ length: 16 }, () => openAt(path))
    const outcomes = await Promise.all(stores.map((store) => store.acquire(claimOf(), call)))
    expect(outcomes.filter(({ ok }) => ok)).toHaveLength(1)
    expect(new Set(outcomes.map(({ record }) => record?.attempt)).size).toBe(1)
  })

  test('one of 16 racing candidates wins on one client of @libsql/client', async () => {
    const client = createClient({ url: `file:${await newPath()}` })
    onTestFinished(() => client.close())
    const store = sqliteStore({ client })
    const outcomes = await Promise.all(Array.from({ length: 16 }, () => store.acquire(claimOf(), call)))
    expect(outcomes.filter(({ ok }) => ok)).toHaveLength(1)
  })

  test('names are compared bytewise', async () => {
    const store = openAt(await newPath())
    const names = ['jobs', 'Jobs', 'jobs ', 'jöbs', 'jo\u0308bs', '%', '_', `"'`, '€'.repeat(85)]
    for (const election of names) expect(granted(await store.acquire(claimOf({ election }), call)).record.term).toBe(1)
    const { records = [] } = (await store.list?.({}, call)) ?? {}
    expect(records.map(({ election }) => election).toSorted()).toEqual(names.toSorted())
  })

  test('the term survives a deleted record, and a candidate that saw it gets a higher one', async () => {
    const path = await newPath()
    const store = openAt(path)
    granted(await store.acquire(claimOf(), call))
    connect(path).exec('DELETE FROM tenure_leases')
    expect(await openAt(path).acquire(claimOf(), call)).toEqual({ ok: false, highestTerm: 1, retryAfterMs: 15_000 })
    const waited = claimOf({ afterTerm: 1, expiredVersion: '' })
    expect(granted(await openAt(path).acquire(waited, call)).record.term).toBe(2)
  })

  test('a recorded term is not granted again when someone replaces the record with one of a lower term', async () => {
    const path = await newPath()
    granted(await openAt(path).acquire(claimOf({ afterTerm: 8, expiredVersion: '' }), call))
    const admin = connect(path)
    const [{ record }] = admin.prepare('SELECT record FROM tenure_leases').all() as [{ record: string }]
    const text = record.replace('"term":9', '"term":3').replace('"released":false', '"released":true')
    admin.prepare(`UPDATE tenure_leases SET record = ?, version = 'other'`).run(text)
    expect(await openAt(path).acquire(claimOf({ afterTerm: 3 }), call)).toMatchObject({ ok: false, highestTerm: 9 })
  })

  test('a claim that found a lower term loses against a higher one recorded in the meantime', async () => {
    const path = await newPath()
    const store = openAt(path)
    const { record } = granted(await store.acquire(claimOf(), call))
    await store.release(held(record), call)
    connect(path).exec('UPDATE tenure_leases_terms SET term = 7')
    expect(await store.acquire(claimOf({ afterTerm: 1 }), call)).toMatchObject({ ok: false, highestTerm: 7 })
  })

  test('reads and refusals create neither a file nor a table', async () => {
    const path = await newPath()
    const store = await openStore(pathToFileURL(path).href.replace('file:', 'sqlite:'))
    expect(await store.read('jobs', call)).toBeUndefined()
    expect(await store.list?.({}, call)).toEqual({ records: [] })
    expect(existsSync(path)).toBe(false)
    const admin = connect(path)
    expect(await openAt(path).read('jobs', call)).toBeUndefined()
    expect(admin.prepare('SELECT name FROM sqlite_master').all()).toEqual([])
  })
})

describe('a database that another connection has locked', () => {
  const locked = async () => {
    const path = await newPath()
    const store = openAt(path)
    const { record } = granted(await store.acquire(claimOf(), call))
    const other = connect(path)
    other.exec('BEGIN IMMEDIATE')
    return { path, store, record, other }
  }

  test('a renewal times out, writes nothing, and does not block the event loop', async () => {
    const { path, record, other } = await locked()
    const client = connect(path)
    client.exec('PRAGMA busy_timeout = 5000')
    const store = sqliteStore({ client })
    await store.read('jobs', call)
    let turns = 0
    const ticking = setInterval(() => turns++, 1)
    const error = await store.renew(held(record), short).catch((late: unknown) => late)
    clearInterval(ticking)
    expect(error).toMatchObject({ code: 'TIMEOUT', retryable: true })
    expect(String(error)).toContain(
      'Another connection holds its lock, and this call waited in vain for 100 ms. Nothing',
    )
    expect(turns).toBeGreaterThan(10)
    expect(client.prepare('PRAGMA busy_timeout').all()).toEqual([{ timeout: 5000 }])
    other.exec('COMMIT')
    expect(await store.read('jobs', call)).toEqual(record)
    granted(await store.renew(held(record), call))
  })

  test('a renewal succeeds as soon as the lock is free, and a read needs no lock', async () => {
    const { store, record, other } = await locked()
    expect(await store.read('jobs', call)).toEqual(record)
    const renewal = store.renew(held(record), call)
    await new Promise((resolve) => setTimeout(resolve, 20))
    other.exec('COMMIT')
    granted(await renewal)
  })

  test('an aborted call ends with its own reason and is not carried out later', async () => {
    const { store, record, other } = await locked()
    const abort = new AbortController()
    const renewal = store.renew(held(record), { signal: abort.signal })
    const reason = new Error('the caller gave up')
    abort.abort(reason)
    await expect(renewal).rejects.toBe(reason)
    other.exec('COMMIT')
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(await store.read('jobs', call)).toEqual(record)
  })

  test('a client of @libsql/client waits for the lock in the same way', async () => {
    const { path, record, other } = await locked()
    const client = createClient({ url: `file:${path}` })
    onTestFinished(() => client.close())
    const store = sqliteStore({ client })
    await expect(store.renew(held(record), short)).rejects.toMatchObject({ code: 'TIMEOUT', retryable: true })
    other.exec('COMMIT')
    granted(await store.renew(held(record), call))
  })

  test("a transaction of other code on the store's connection is never joined", async () => {
    const path = await newPath()
    const client = connect(path)
    const store = sqliteStore({ client })
    const { record } = granted(await store.acquire(claimOf(), call))
    client.exec('BEGIN')
    for (const doing of [store.renew(held(record), short), store.read('jobs', short)]) {
      await expect(doing).rejects.toMatchObject({ code: 'TIMEOUT', message: expect.stringContaining('Other code has') })
    }
    client.exec('ROLLBACK')
    expect(await store.read('jobs', call)).toEqual(record)
  })
})

describe('settings under which a grant could be lost', () => {
  test.each(['NORMAL', 'OFF'])('synchronous = %s is refused before anything is written', async (level) => {
    const client = connect(await newPath())
    const store = sqliteStore({ client })
    const { record } = granted(await store.acquire(claimOf(), call))
    client.exec(`PRAGMA synchronous = ${level}`)
    const text = expect.stringContaining(`PRAGMA synchronous is ${level}, below FULL`)
    const refusal = { code: 'UNSAFE_SETTINGS', message: text }
    await expect(store.renew(held(record), call)).rejects.toMatchObject(refusal)
    await expect(store.acquire(claimOf({ election: 'mail' }), call)).rejects.toMatchObject(refusal)
    expect(await store.inspect(call)).toMatchObject([{ risk: 'unsafe', text }])
    expect(await store.read('jobs', call)).toEqual(record)
    expect(await store.read('mail', call)).toBeUndefined()
    client.exec('PRAGMA synchronous = FULL')
    expect(await store.inspect(call)).toEqual([])
    granted(await store.renew(held(record), call))
  })

  test('a rollback journal is refused, and a write-ahead log is turned on with the tables', async () => {
    const client = connect(await newPath())
    client.exec(sqliteSchema().replace(/^.*;/, ''))
    const store = sqliteStore({ client })
    const text = expect.stringContaining('The journal mode is DELETE')
    await expect(store.acquire(claimOf(), call)).rejects.toMatchObject({ code: 'UNSAFE_SETTINGS', message: text })
    expect(await store.inspect(call)).toMatchObject([{ risk: 'unsafe', text }])
    expect(await store.read('jobs', call)).toBeUndefined()
    client.exec('PRAGMA journal_mode = WAL')
    granted(await store.acquire(claimOf(), call))
    const own = connect(await newPath())
    granted(await sqliteStore({ client: own }).acquire(claimOf(), call))
    expect(own.prepare('PRAGMA journal_mode').all()).toEqual([{ journal_mode: 'wal' }])
  })

  test('a long busy timeout of @libsql/client is reported, because it blocks the process', async () => {
    const client = createClient({ url: `file:${await newPath()}`, timeout: 5_000 })
    onTestFinished(() => client.close())
    const store = sqliteStore({ client })
    granted(await store.acquire(claimOf(), call))
    expect(await store.inspect(call)).toMatchObject([{ risk: 'tight', text: expect.stringContaining('is 5000 ms') }])
  })

  const inMemory: [string, () => SqliteClient & { close(): void }][] = [
    ['in memory', () => new Database(':memory:')],
    ['in memory, of @libsql/client', () => createClient({ url: ':memory:' })],
    ['that is temporary', () => new Database('')],
  ]
  test.each(inMemory)('a database %s is refused', async (_, open) => {
    const client = open()
    onTestFinished(() => client.close())
    const error = await sqliteStore({ client })
      .acquire(claimOf(), call)
      .catch((refusal: unknown) => refusal)
    expect(error).toMatchObject({ code: 'UNSAFE_SETTINGS', retryable: false })
    expect(String(error)).toContain('every connection has its own, so all candidates would lead at once')
  })

  test('a connection that answers with promises is refused', async () => {
    const client = new PromiseDatabase(await newPath(), {})
    onTestFinished(() => client.close())
    const store = sqliteStore({ client })
    await expect(store.acquire(claimOf(), call)).rejects.toMatchObject({ code: 'UNSAFE_SETTINGS', option: 'client' })
  })
})

describe('files that are changed while they are open', () => {
  const led = async () => {
    const path = await newPath()
    const url = pathToFileURL(path).href.replace('file:', 'sqlite:')
    const store = await openStore(url)
    onTestFinished(() => store.close?.())
    const { record } = granted(await store.acquire(claimOf(), call))
    return { path, store, record, own: openAt(path), url }
  }
  const replaced = { code: 'BACKEND_UNAVAILABLE', message: expect.stringContaining('was deleted or replaced') }

  test.each(['', '-wal', '-shm'])('a deleted file with the ending "%s" stops renewals', async (ending) => {
    const { path, store, record, own } = await led()
    await own.read('jobs', call)
    rmSync(path + ending)
    await expect(store.renew(held(record), call)).rejects.toMatchObject(replaced)
    await expect(own.renew(held(record), call)).rejects.toMatchObject(replaced)
    await expect(own.read('jobs', call)).rejects.toMatchObject(replaced)
  })

  test('after all files were deleted, the leader is refused and no term that a candidate saw is granted again', async () => {
    const { path, store, record } = await led()
    for (const ending of ['', '-wal', '-shm']) rmSync(path + ending)
    await expect(store.renew(held(record), call)).rejects.toMatchObject(replaced)
    expect(await store.renew(held(record), call)).toMatchObject({ ok: false, highestTerm: 0 })
    expect(await store.acquire(claimOf({ afterTerm: 1 }), call)).toMatchObject({ ok: false })
    const waited = claimOf({ afterTerm: 1, expiredVersion: '' })
    expect(granted(await store.acquire(waited, call)).record.term).toBe(2)
  })

  test('a file that was replaced by an older copy is used only after it is opened again', async () => {
    const { path, store, record, own } = await led()
    await own.read('jobs', call)
    connect(path).exec('PRAGMA wal_checkpoint(TRUNCATE)')
    copyFileSync(path, `${path}.copy`)
    const renewed = granted(await store.renew(held(record), call)).record
    for (const ending of ['-wal', '-shm']) rmSync(path + ending)
    renameSync(`${path}.copy`, path)
    await expect(store.renew(held(renewed), call)).rejects.toMatchObject(replaced)
    expect(await store.renew(held(renewed), call)).toMatchObject({ ok: false, record: { version: record.version } })
    await expect(own.read('jobs', call)).rejects.toMatchObject(replaced)
  })

  test.runIf(process.platform === 'linux')(
    'a client whose file was replaced before its first call is refused',
    async () => {
      const path = await newPath()
      const client = connect(path)
      client.exec(sqliteSchema())
      for (const ending of ['', '-wal', '-shm']) rmSync(path + ending)
      // A file that no process has open.
      writeFileSync(path, '')
      await expect(sqliteStore({ client }).read('jobs', call)).rejects.toMatchObject(replaced)
    },
  )

  test('a file that is not a database is refused, and used again once it is restored', async () => {
    const path = await newPath()
    writeFileSync(path, 'not a database'.repeat(1_000))
    const store = await openStore(pathToFileURL(path).href.replace('file:', 'sqlite:'))
    onTestFinished(() => store.close?.())
    for (const doing of [store.acquire(claimOf(), call), store.read('jobs', call)]) {
      await expect(doing).rejects.toMatchObject({ code: 'RECORD_INVALID', message: expect.stringContaining('damaged') })
    }
    rmSync(path)
    granted(await store.acquire(claimOf(), call))
  })
})

describe('rows and tables that are not the store’s', () => {
  test.each([
    ['text that is not a record', `UPDATE tenure_leases SET record = 'x', version = 'y'`],
    ['an empty version', `UPDATE tenure_leases SET version = ''`],
    ['a term that is not a number', `UPDATE tenure_leases_terms SET term = 'x'`],
    ['the record of another election', `UPDATE tenure_leases SET record = replace(record, '"jobs"', '"mail"')`],
  ])('%s is an error, and other elections stay usable', async (_, change) => {
    const path = await newPath()
    const store = openAt(path)
    const { record } = granted(await store.acquire(claimOf(), call))
    connect(path).exec(change)
    const invalid = { code: 'RECORD_INVALID', message: expect.stringContaining(`"${path}"`) }
    await expect(store.read('jobs', call)).rejects.toMatchObject(invalid)
    await expect(store.acquire(claimOf({ afterTerm: 1 }), call)).rejects.toMatchObject(invalid)
    expect(record.term).toBe(1)
    granted(await store.acquire(claimOf({ election: 'other' }), call))
  })

  test('a table of another program is refused', async () => {
    const path = await newPath()
    connect(path).exec('CREATE TABLE tenure_leases (id INTEGER)')
    await expect(openAt(path).acquire(claimOf(), call)).rejects.toMatchObject({
      code: 'RECORD_INVALID',
      message: expect.stringContaining('was not created by Tenure'),
    })
  })

  test('without createTable, a missing table is an error until sqliteSchema() was run', async () => {
    const path = await newPath()
    const store = openAt(path, { createTable: false, table: 'own' })
    const missing = { code: 'NOT_FOUND', retryable: true, message: expect.stringContaining('sqliteSchema()') }
    await expect(store.acquire(claimOf(), call)).rejects.toMatchObject(missing)
    connect(path).exec(sqliteSchema({ table: 'own' }))
    const { record } = granted(await store.acquire(claimOf(), call))
    connect(path).exec('DROP TABLE own')
    await expect(store.renew(held(record), call)).rejects.toMatchObject(missing)
  })

  test('a dropped table is created again, and the leader of before is refused', async () => {
    const path = await newPath()
    const store = openAt(path)
    const { record } = granted(await store.acquire(claimOf(), call))
    connect(path).exec('DROP TABLE tenure_leases')
    await expect(store.renew(held(record), call)).rejects.toMatchObject({ code: 'NOT_FOUND', retryable: true })
    expect(await store.renew(held(record), call)).toMatchObject({ ok: false })
  })
})

describe('options of sqliteStore', () => {
  test.each<[string, Partial<SqliteStoreOptions>, string]>([
    ['no client', { client: undefined as never }, 'client'],
    ['a path as the client', { client: '/tmp/leases.db' as never }, 'client'],
    ['an object without methods', { client: {} as never }, 'client'],
    ['a table with a quote', { table: 'a"b' }, 'table'],
    ['a table of SQLite itself', { table: 'sqlite_leases' }, 'table'],
    ['a createTable that is not a boolean', { createTable: 1 as never }, 'createTable'],
    [
      'an allowNetworkFilesystem that is not a boolean',
      { allowNetworkFilesystem: 1 as never },
      'allowNetworkFilesystem',
    ],
    ['an invalid clock', { clock: {} as never }, 'clock'],
  ])('%s is refused', async (_, change, option) => {
    const client = connect(await newPath())
    expect(() => sqliteStore({ client, ...change })).toThrow(
      expect.objectContaining({ code: 'INVALID_OPTION', option }),
    )
  })

  test.each([
    'sqlite:leases.db',
    'sqlite:///',
    'sqlite::memory:',
    'sqlite://host/leases.db',
    'sqlite:///leases.db?mode=ro',
    'sqlite:///leases.db#x',
    'sqlite:///a%2Fb',
  ])('the URL %s is refused', async (url) => {
    await expect(openStore(url)).rejects.toMatchObject({ code: 'INVALID_OPTION', option: 'store' })
  })

  test('a URL names the table, and a missing directory is one clear error', async () => {
    const path = await newPath()
    const store = await openStore(`sqlite://${path}?table=own`)
    onTestFinished(() => store.close?.())
    granted(await store.acquire(claimOf(), call))
    expect(connect(path).prepare('SELECT election FROM own').all()).toEqual([{ election: 'jobs' }])
    const lost = await openStore(`sqlite://${join(path, '..', 'missing', 'leases.db')}`)
    await expect(lost.acquire(claimOf(), call)).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: expect.stringContaining('Its directory must exist'),
    })
  })

  test('a closed client and a closed store are errors', async () => {
    const client = connect(await newPath())
    const store = sqliteStore({ client })
    granted(await store.acquire(claimOf(), call))
    client.close()
    await expect(store.read('jobs', call)).rejects.toMatchObject({ code: 'STOPPED' })
    const other = openAt(await newPath())
    await other.close?.()
    await expect(other.read('jobs', call)).rejects.toMatchObject({ code: 'STOPPED' })
  })
})
