import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createPool, type Pool, type PoolOptions } from 'mysql2/promise'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { freePort } from '../../../../../test/servers/free-port.ts'
import { mariadb, mariadbWith } from '../../../../../test/servers/mariadb.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import { openStore } from '../../../src/stores/index.ts'
import { mysqlSchema, mysqlStore, type MysqlStoreOptions } from '../../../src/stores/mysql/index.ts'
import { call, claimOf, connectTo, granted } from './scene.ts'

describeWith(mariadb, 'mysqlStore on misconfigured or failing servers', (server) => {
  let admin: Pool
  beforeAll(() => {
    admin = createPool({ uri: server().url })
  })
  afterAll(() => admin.end())
  const open = (options: Partial<MysqlStoreOptions> = {}) => mysqlStore({ client: admin, ...options })
  const poolAs = (user: string, options: PoolOptions = {}) => {
    const pool = createPool({ uri: server().url.replace('root', user), ...options })
    onTestFinished(() => pool.end())
    return pool
  }
  /** Sets a variable of the server until the test ends. */
  const setGlobal = async (name: string, value: string | number, usual: string | number) => {
    await admin.query(`set global ${name} = ${value}`)
    onTestFinished(async () => void (await admin.query(`set global ${name} = ${usual}`)))
  }
  const openAt = async (url: string, environment: Record<string, string> = {}) => {
    const store = await openStore(url, { environment })
    onTestFinished(() => store.close?.())
    return store
  }

  test('the store reports a wrong password and its source, and accepts the right one from every source', async () => {
    await admin.query(`create user locked identified by 'right'`)
    await admin.query('grant all on tenure.* to locked')
    const read = async (login: string, environment = {}) =>
      (await openAt(server().url.replace('root', login), environment)).read('payments', call)
    const wrongFrom = (source: string) => ({
      code: 'UNAUTHORIZED',
      retryable: false,
      message: expect.stringMatching(new RegExp(`'locked'.* The password came from ${source}\\.$`)),
    })
    await expect(read('locked:wrong')).rejects.toMatchObject(wrongFrom('the URL'))
    await expect(read('locked', { MYSQL_PWD: 'wrong' })).rejects.toMatchObject(wrongFrom('MYSQL_PWD'))
    const none = { code: 'UNAUTHORIZED', message: expect.stringContaining('using password: NO') }
    await expect(read('locked')).rejects.toMatchObject(none)
    expect(await read('locked:right')).toBeUndefined()
    expect(await read('locked', { MYSQL_PWD: 'right' })).toBeUndefined()
    const file = join(mkdtempSync(join(tmpdir(), 'tenure-password-')), 'password')
    onTestFinished(() => rmSync(dirname(file), { recursive: true }))
    writeFileSync(file, 'wrong\n', { mode: 0o600 })
    const byFile = { TENURE_STORE_USER: 'locked', TENURE_STORE_PASSWORD_FILE: file, MYSQL_PWD: 'right' }
    const store = await openAt(server().url.replace('root@', ''), byFile)
    await expect(store.read('payments', call)).rejects.toMatchObject(wrongFrom(`the file ${file}`))
    // The file is read again for the next connection.
    writeFileSync(file, 'right\n')
    expect(await store.read('payments', call)).toBeUndefined()
  })

  test('the store names a missing table, a missing database, and the rights that a user lacks', async () => {
    const missing = { code: 'NOT_FOUND', retryable: true, message: expect.stringMatching(/"nowhere".*mysqlSchema\(\)/) }
    await expect(open({ table: 'nowhere', createTable: false }).acquire(claimOf(), call)).rejects.toMatchObject(missing)
    expect(await open({ table: 'nowhere' }).read('payments', call)).toBeUndefined()
    await expect(open({ table: 'nowhere.leases' }).acquire(claimOf(), call)).rejects.toMatchObject({
      code: 'NOT_FOUND',
    })
    const noDatabase = await openAt(server().url.replace('/tenure', '/nowhere'))
    await expect(noDatabase.read('payments', call)).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringMatching(/no such database.*'nowhere'/),
    })
    const bare = createPool({ uri: server().url.replace('/tenure', '') })
    onTestFinished(() => bare.end())
    await expect(open({ client: bare }).acquire(claimOf(), call)).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('has no database'),
    })
    await admin.query('create user poor')
    await admin.query(mysqlSchema({ table: 'others' }))
    await admin.query('grant select on tenure.others to poor')
    await expect(open({ client: poolAs('poor'), table: 'mine' }).acquire(claimOf(), call)).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
      message: expect.stringMatching(/"mine".* may not create it.*mysqlSchema\(\).*SELECT, INSERT and UPDATE/),
    })
    const reader = open({ client: poolAs('poor'), table: 'others' })
    expect(await reader.read('payments', call)).toBeUndefined()
    await expect(reader.acquire(claimOf(), call)).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
      message: expect.stringMatching(/right on the table "others"/),
    })
  })

  test('the store needs no more rights than its page says', async () => {
    await admin.query(mysqlSchema({ table: 'granted' }))
    await admin.query(mysqlSchema({ table: 'granted' }))
    await admin.query('create user worker')
    await admin.query('grant select, insert, update on tenure.granted to worker')
    const store = open({ client: poolAs('worker'), table: 'granted', createTable: false })
    const first = granted(await store.acquire(claimOf(), call))
    const renewed = granted(await store.renew(held(first), call))
    const released = granted(await store.release(held(renewed), call))
    expect(await store.list?.({}, call)).toMatchObject({ records: [{ released: true }] })
    const forget = { election: 'payments', version: released.version }
    await expect(store.forget?.(forget, call)).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
    await admin.query('grant delete on tenure.granted to worker')
    expect(await store.forget?.(forget, call)).toEqual({ ok: true })
    expect(await store.inspect(call)).toEqual([])
  })

  test('the store neither grants nor renews while commits do not wait for the disk', async () => {
    const store = open({ table: 'careless' })
    const record = granted(await store.acquire(claimOf(), call))
    await setGlobal('innodb_flush_log_at_trx_commit', 2, 1)
    const unsafe = {
      code: 'UNSAFE_SETTINGS',
      retryable: false,
      message: expect.stringContaining('innodb_flush_log_at_trx_commit is not 1'),
    }
    await expect(store.renew(held(record), call)).rejects.toMatchObject(unsafe)
    await expect(store.acquire(claimOf({ election: 'other' }), call)).rejects.toMatchObject(unsafe)
    await admin.query('set global innodb_flush_log_at_trx_commit = 1')
    expect(await open({ table: 'careless' }).read('payments', call)).toEqual(record)
    granted(await store.renew(held(record), call))
  })

  test('the store writes nothing to a read-only server, not even as a user who may', async () => {
    const store = open({ table: 'standby' })
    const record = granted(await store.acquire(claimOf(), call))
    await admin.query('create user plain')
    await admin.query('grant all on tenure.* to plain')
    const plain = open({ client: poolAs('plain'), table: 'standby' })
    await plain.read('payments', call)
    await setGlobal('read_only', 1, 0)
    const readOnly = { code: 'BACKEND_UNAVAILABLE', retryable: true, message: expect.stringContaining('read-only') }
    for (const each of [store, plain]) {
      await expect(each.renew(held(record), call)).rejects.toMatchObject(readOnly)
      await expect(each.acquire(claimOf({ election: 'other' }), call)).rejects.toMatchObject(readOnly)
      await expect(each.read('payments', call)).rejects.toMatchObject(readOnly)
    }
    await admin.query('set global read_only = 0')
    expect(await store.read('payments', call)).toEqual(record)
    granted(await plain.renew(held(record), call))
  })

  test('the store refuses a connection that does not commit by itself', async () => {
    const settings = { code: 'UNSAFE_SETTINGS', message: expect.stringContaining('autocommit is off') }
    const client = await connectTo(server().url)
    onTestFinished(() => client.end())
    const store = open({ client, table: 'manual' })
    const record = granted(await store.acquire(claimOf(), call))
    await client.query('set autocommit = 0')
    await expect(open({ client, table: 'manual' }).read('payments', call)).rejects.toMatchObject(settings)
    await expect(store.renew(held(record), call)).rejects.toMatchObject({ code: 'UNSAFE_SETTINGS' })
    await client.query('rollback')
    await client.query('set autocommit = 1')
    expect(await open({ table: 'manual' }).read('payments', call)).toEqual(record)
  })

  test('the store refuses a connection with an open transaction', async () => {
    const opened = {
      code: 'UNSAFE_SETTINGS',
      retryable: true,
      message: expect.stringContaining('opened a transaction'),
    }
    const record = granted(await open({ table: 'opened' }).acquire(claimOf(), call))
    const client = await connectTo(server().url)
    onTestFinished(() => client.end())
    const store = open({ client, table: 'opened' })
    await store.read('payments', call)
    await client.query('start transaction with consistent snapshot')
    await expect(open({ client, table: 'opened' }).acquire(claimOf(), call)).rejects.toMatchObject(opened)
    await expect(store.renew(held(record), call)).rejects.toMatchObject(opened)
    await client.query('rollback')
    expect(await open({ table: 'opened' }).read('payments', call)).toEqual(record)
  })

  test.each(['MyISAM', 'Aria', 'MEMORY'])('the store refuses a table with the engine %s', async (engine) => {
    const table = `engine_${engine}`
    // An engine without large values shows that the columns are checked before the engine.
    const type = engine === 'MEMORY' ? 'varbinary(9000)' : 'mediumblob'
    await admin.query(mysqlSchema({ table }).replace('InnoDB', engine).replace('mediumblob', type))
    await expect(open({ table }).acquire(claimOf(), call)).rejects.toMatchObject(
      engine === 'MEMORY'
        ? { code: 'RECORD_INVALID' }
        : { code: 'UNSAFE_SETTINGS', retryable: false, message: expect.stringMatching(/engine .*engine = InnoDB/) },
    )
    expect((await admin.query(`select * from ${table}`))[0]).toEqual([])
  })

  test('the store refuses a table that would cut its texts without an error, and a table of another program', async () => {
    const changes = [
      'modify record varbinary(40) not null',
      'modify id varchar(264) not null',
      'modify version varbinary(10) not null',
      'drop primary key',
      'drop column confirmations',
      'add column note text',
    ]
    const foreign = {
      code: 'RECORD_INVALID',
      retryable: false,
      message: expect.stringContaining('not created by Tenure'),
    }
    const loose = poolAs('root')
    for (const [index, change] of changes.entries()) {
      const table = `altered_${index}`
      await admin.query(mysqlSchema({ table }))
      await admin.query(`alter table ${table} ${change}`)
      await expect(open({ client: loose, table }).acquire(claimOf(), call), change).rejects.toMatchObject(foreign)
    }
    await admin.query('create table strangers (id int primary key, note text)')
    await expect(open({ table: 'strangers' }).read('payments', call)).rejects.toMatchObject(foreign)
    await admin.query('create view seen as select * from strangers')
    await expect(open({ table: 'seen' }).acquire(claimOf(), call)).rejects.toMatchObject(foreign)
  })

  test('the store stores texts unchanged where sql_mode is not strict', async () => {
    const loose = await connectTo(server().url)
    onTestFinished(() => loose.end())
    await loose.query(`set session sql_mode = ''`)
    const metadata = { note: 'ü'.repeat(1_900) }
    const claim = claimOf({ election: 'ü'.repeat(128), holder: 'h'.repeat(256), metadata })
    const record = granted(await open({ client: loose, table: 'loose' }).acquire(claim, call))
    const checkpoint = '😀'.repeat(8_000)
    const renewed = granted(await open({ client: loose, table: 'loose' }).renew({ ...held(record), checkpoint }, call))
    expect(await open({ table: 'loose' }).read(claim.election, call)).toEqual({ ...renewed, checkpoint })
  })

  test('the store reports that a user has reached its connection limit, and recovers when one is closed', async () => {
    await admin.query('create user crowded with max_user_connections 1')
    await admin.query('grant all on tenure.* to crowded')
    const one = poolAs('crowded')
    const busy = await one.getConnection()
    const crowded = open({ client: poolAs('crowded'), table: 'crowd' })
    await expect(crowded.read('payments', call)).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      retryable: true,
      message: expect.stringContaining('max_user_connections'),
    })
    busy.destroy()
    await expect.poll(() => crowded.read('payments', call).catch(() => 'refused')).toBeUndefined()
  })

  test('the store reports a port on which nothing listens', async () => {
    const store = await openAt(`mysql://root@127.0.0.1:${await freePort()}/tenure`)
    const refused = { code: 'BACKEND_UNAVAILABLE', retryable: true, message: expect.stringContaining('ECONNREFUSED') }
    await expect(store.read('payments', call)).rejects.toMatchObject(refused)
    await store.close?.()
    await expect(store.read('payments', call)).rejects.toMatchObject({ code: 'STOPPED' })
  })
})

const logged = mariadbWith({
  'log-bin': 'log',
  'server-id': 1,
  'binlog-format': 'STATEMENT',
  version: '5.5.5-10.5.9-MariaDB',
})

describeWith(logged, 'mysqlStore on a server with a binary log and an old version', (server) => {
  test('a server that is too old is refused with its version', async () => {
    const pool = createPool({ uri: server().url })
    onTestFinished(() => pool.end())
    await expect(mysqlStore({ client: pool }).acquire(claimOf(), call)).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      retryable: false,
      message:
        'This store needs MySQL 8.0 or MariaDB 10.6, or newer, but this server reports version 5.5.5-10.5.9-MariaDB.',
    })
  })
})

const unsafe = mariadbWith({
  'log-bin': 'log',
  'server-id': 1,
  'binlog-format': 'STATEMENT',
  'innodb-doublewrite': 'OFF',
})

describeWith(unsafe, 'mysqlStore on a server with a binary log of statements', (server) => {
  test('the store refuses the log, and inspect reports what a crash could lose', async () => {
    const pool = createPool({ uri: server().url })
    onTestFinished(() => pool.end())
    await expect(mysqlStore({ client: pool }).acquire(claimOf(), call)).rejects.toMatchObject({
      code: 'UNSAFE_SETTINGS',
      message: expect.stringContaining('binlog_format is STATEMENT'),
    })
    await pool.query(`set global binlog_format = 'ROW'`)
    const fresh = createPool({ uri: server().url })
    onTestFinished(() => fresh.end())
    const store = mysqlStore({ client: fresh })
    granted(await store.acquire(claimOf(), call))
    const findings = await store.inspect(call)
    expect(findings.map(({ risk, text }) => `${risk} ${text.split(':')[0]}`)).toEqual([
      'unsafe sync_binlog is 0',
      'unsafe innodb_doublewrite is OFF',
    ])
    await pool.query('set global sync_binlog = 1')
    expect(await store.inspect(call)).toHaveLength(1)
  })
})
