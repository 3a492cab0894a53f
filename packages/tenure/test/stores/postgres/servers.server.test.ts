import { chownSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Client, Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { pgbouncerFor, postgres, standbyOf } from '../../../../../test/servers/postgres.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { start, type RunningServer } from '../../../../../test/servers/server.ts'
import { mayMount, smallDisk } from '../../../../../test/servers/small-disk.ts'
import { describeWith, describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import { makeCertificate } from '../../kubernetes/certificate.ts'
import type { InspectableStore } from '../../../src/store-kit/diagnostics.ts'
import type { AcquireClaim, LeaseRecord, Outcome } from '../../../src/engine/lease-store.ts'
import { openStore } from '../../../src/stores/index.ts'
import { postgresSchema, postgresStore, type PostgresStoreOptions } from '../../../src/stores/postgres/index.ts'

const { signal } = new AbortController()
const call = { signal, timeoutMs: 5_000 }

function claimOf(change: Partial<AcquireClaim> = {}): AcquireClaim {
  const claim = { election: 'payments', holder: 'ada', attempt: 'first', leaseDurationMs: 15_000, afterTerm: 0 }
  return { ...claim, metadata: {}, ...change }
}

function recordOf(outcome: Outcome): LeaseRecord {
  if (!outcome.ok) throw new Error(`the call was refused: ${JSON.stringify(outcome)}`)
  return outcome.record
}

function poolAt(url: string, options = ''): Pool {
  const pool = new Pool({ connectionString: url, max: 4, options })
  pool.on('error', () => {})
  onTestFinished(() => pool.end())
  return pool
}

const texts = (findings: readonly { risk: string; text: string }[]) =>
  findings.map(({ risk, text }) => `${risk}: ${text.split(':')[0]}`)

describeWith(postgres, 'postgresStore on misconfigured or failing servers', (server) => {
  let admin: Pool
  beforeAll(() => {
    admin = new Pool({ connectionString: server().url, max: 4 })
  })
  afterAll(() => admin.end())
  const urlFor = (user: string, password = '') =>
    server().url.replace('postgres@', `${user}${password && `:${password}`}@`)
  const open = (options: Partial<PostgresStoreOptions> = {}) => postgresStore({ client: admin, ...options })

  test('the store reports a wrong password and its source, and accepts the right one from every source', async () => {
    const rules = join(server().directory, 'data/pg_hba.conf')
    writeFileSync(rules, `host all locked 127.0.0.1/32 scram-sha-256\n${readFileSync(rules, 'utf8')}`)
    await admin.query(`create role locked login password 'right'; grant create on schema public to locked`)
    await admin.query('select pg_reload_conf()')
    const read = async (url: string, environment = {}) => {
      const store = await openStore(url, { environment })
      onTestFinished(() => store.close?.())
      return store.read('payments', call)
    }
    const wrong = { code: 'UNAUTHORIZED', retryable: false, message: expect.stringContaining('"locked"') }
    const wrongFrom = (source: string) => ({
      ...wrong,
      message: expect.stringMatching(new RegExp(`"locked".* The password came from ${source}\\.$`)),
    })
    await expect(read(urlFor('locked', 'wrong'))).rejects.toMatchObject(wrongFrom('the URL'))
    await expect(read(urlFor('locked'), { PGPASSWORD: 'wrong' })).rejects.toMatchObject(wrongFrom('PGPASSWORD'))
    expect(await read(urlFor('locked', 'right'))).toBeUndefined()
    expect(await read(urlFor('locked'), { PGPASSWORD: 'right' })).toBeUndefined()
    const file = join(mkdtempSync(join(tmpdir(), 'tenure-password-')), 'password')
    onTestFinished(() => rmSync(dirname(file), { recursive: true }))
    writeFileSync(file, 'right\n')
    const nameless = server().url.replace('postgres@', '')
    const byFile = { TENURE_STORE_USER: 'locked', TENURE_STORE_PASSWORD_FILE: file, PGPASSWORD: 'wrong' }
    expect(await read(nameless, byFile)).toBeUndefined()
    await expect(read(urlFor('locked'))).rejects.toMatchObject({
      ...wrong,
      message: expect.stringMatching(/requires a password, but none is set\. .*TENURE_STORE_PASSWORD/),
    })
    const passwords = ['old', 'right']
    const { hostname: host, port, pathname } = new URL(server().url)
    const rotating = new Pool({
      host,
      port: Number(port),
      database: pathname.slice(1),
      user: 'locked',
      password: async () => passwords.shift() ?? '',
      max: 1,
    })
    onTestFinished(() => rotating.end())
    const store = open({ client: rotating })
    await expect(store.read('payments', call)).rejects.toMatchObject(wrong)
    expect(await store.read('payments', call)).toBeUndefined()
  })

  test('the store names a missing table and the permissions that a role lacks', async () => {
    const missing = open({ table: 'nowhere', createTable: false }).read('payments', call)
    await expect(missing).rejects.toMatchObject({ code: 'NOT_FOUND', message: expect.stringContaining('nowhere"') })
    const noSchema = open({ table: 'nowhere.leases' }).acquire(claimOf(), call)
    await expect(noSchema).rejects.toMatchObject({ code: 'NOT_FOUND', message: expect.stringContaining('schema') })
    await admin.query('create role poor login')
    const poor = open({ client: poolAt(urlFor('poor')), table: 'not_mine' }).acquire(claimOf(), call)
    await expect(poor).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
      message: expect.stringMatching(
        /"public.not_mine".* does not exist.*may not create it.*postgresSchema\({ role }\)/,
      ),
    })
  })

  test('the store needs no more permissions than postgresSchema() grants', async () => {
    await admin.query('create role "odd ""worker" login')
    await admin.query(postgresSchema({ table: 'jobs.leases', role: 'odd "worker' }))
    await admin.query(postgresSchema({ table: 'jobs.leases', role: 'odd "worker' }))
    const client = poolAt(server().url.replace('postgres@', `${encodeURIComponent('odd "worker')}@`))
    const options = { table: 'jobs.leases', createTable: false } as const
    const store = postgresStore({ connect: () => client.connect(), ...options })
    onTestFinished(() => store.close?.())
    const changes = store.watch?.('payments', { signal })[Symbol.asyncIterator]()
    expect(await changes?.next()).toEqual({ done: false, value: undefined })
    const first = recordOf(await store.acquire(claimOf(), call))
    expect(await changes?.next()).toEqual({ done: false, value: first })
    const renewed = recordOf(await store.renew(held(first), call))
    recordOf(await store.release(held(renewed), call))
    expect(await store.list?.({}, call)).toMatchObject({ records: [{ released: true }] })
    expect(recordOf(await store.acquire(claimOf({ attempt: 'b', afterTerm: 1 }), call)).term).toBe(2)
    await expect(client.query('delete from jobs.leases')).rejects.toMatchObject({ code: '42501' })
    await changes?.return?.()
  })

  test('the store neither grants nor renews when commits do not wait for the disk', async () => {
    const careless = poolAt(server().url, '-c synchronous_commit=off')
    const store = open({ client: careless, table: 'careless' })
    await expect(store.acquire(claimOf(), call)).rejects.toMatchObject({ code: 'UNSAFE_SETTINGS', retryable: false })
    expect((await admin.query('select * from careless, careless_terms')).rows).toEqual([])
    const record = recordOf(await open({ table: 'careless' }).acquire(claimOf(), call))
    await expect(store.renew(held(record), call)).rejects.toMatchObject({ code: 'UNSAFE_SETTINGS' })
    expect(await open({ table: 'careless' }).read('payments', call)).toEqual(record)
  })

  test('the store reports a server that has reached its connection limit', async () => {
    await admin.query('create role crowded login connection limit 0')
    const crowded = open({ client: poolAt(urlFor('crowded')) }).read('payments', call)
    await expect(crowded).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      retryable: true,
      message: expect.stringContaining('connection limit'),
    })
  })

  test.runIf(mayMount)('the store recovers by itself when a full disk has space again', async () => {
    const disk = smallDisk()
    const { uid, gid } = statSync(join(server().directory, 'data'))
    chownSync(disk.directory, uid, gid)
    await admin.query(`create tablespace small location '${disk.directory}'`)
    const small = poolAt(server().url, '-c default_tablespace=small')
    const store = open({ client: small, table: 'small' })
    const record = recordOf(await store.acquire(claimOf(), call))
    disk.fill()
    const failure = async () => {
      for (let count = 0; count < 200; count++) {
        await store.acquire(
          claimOf({ election: `e${count}`, attempt: `a${count}`, metadata: { pad: 'x'.repeat(900) } }),
          call,
        )
      }
    }
    await expect(failure()).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      retryable: true,
      message: expect.stringContaining('disk'),
    })
    disk.free()
    recordOf(await store.renew(held(record), call))
    recordOf(await store.acquire(claimOf({ election: 'late', attempt: 'late' }), call))
    await admin.query('drop table small, small_terms, small_meta')
    await admin.query('drop tablespace small')
  })

  test('the store rejects a table of another program and does not change it', async () => {
    await admin.query('create table strangers (id int, note text)')
    const foreign = { code: 'RECORD_INVALID', retryable: false, message: expect.stringContaining('strangers"') }
    await expect(open({ table: 'strangers' }).acquire(claimOf(), call)).rejects.toMatchObject(foreign)
    await admin.query('create table strangers_meta (id int)')
    await expect(open({ table: 'strangers' }).acquire(claimOf(), call)).rejects.toMatchObject(foreign)
    const { rows } = await admin.query(`select tgname from pg_trigger where tgrelid = 'strangers'::regclass`)
    expect(rows).toEqual([])
  })

  test('the store refuses tables of another format and servers that are too old', async () => {
    await open({ table: 'newer' }).acquire(claimOf(), call)
    await admin.query('update newer_meta set format = 2')
    const message = expect.stringMatching(/"public.newer" has format 2, but this version reads only format 1/)
    await expect(open({ table: 'newer' }).acquire(claimOf(), call)).rejects.toMatchObject({
      code: 'RECORD_INVALID',
      message,
    })
    // The answer from a real server, with another version.
    const aged = {
      query: async (text: string, values: (string | null)[]) => {
        const { rows } = await admin.query(text, values)
        return rows.map((row) => ('server' in row ? { ...row, server: '120022' } : row))
      },
    }
    const old = { code: 'BACKEND_UNAVAILABLE', message: expect.stringMatching(/PostgreSQL 13 or newer.* 120022/) }
    await expect(open({ client: aged, table: 'newer' }).acquire(claimOf(), call)).rejects.toMatchObject(old)
  })

  test.each([
    ['not JSON', `update damaged set record = 'garbage'`],
    ['of another election', `update damaged set record = replace(record, 'payments', 'other')`],
    ['without a term', `update damaged set record = replace(record, '"term":1', '"term":0')`],
    ['of a future format', `update damaged set record = replace(record, '"format":1', '"format":2')`],
    ['stored with a term that is too large', `update damaged_terms set term = 9223372036854775807`],
    ['stored with an invalid duration', `update damaged_terms set lease_ms = 'NaN'`],
  ])('nobody is elected when the record is %s', async (_, damage) => {
    await admin.query(
      'drop table if exists damaged, damaged_terms, damaged_meta; drop sequence if exists damaged_version',
    )
    await admin.query('drop function if exists damaged_notify')
    const store = open({ table: 'damaged' })
    const record = recordOf(await store.acquire(claimOf(), call))
    recordOf(await store.acquire(claimOf({ election: 'sound', attempt: 's' }), call))
    await admin.query(`${damage} where election = 'payments'`)
    const takeover = claimOf({ attempt: 'other', afterTerm: 1, expiredVersion: record.version })
    const damaged = { code: 'RECORD_INVALID', message: expect.stringContaining('"payments"') }
    await expect(open({ table: 'damaged' }).acquire(takeover, call)).rejects.toMatchObject(damaged)
    const { records = [], problems = [] } = (await store.list?.({}, call)) ?? {}
    expect(records.map(({ election }) => election)).toContain('sound')
    expect(records.length + problems.length).toBe(2)
  })

  test('no error shows the password', async () => {
    const store = await openStore(urlFor('nobody', 'hunter2').replace('/postgres', '/nowhere'), { environment: {} })
    onTestFinished(() => store.close?.())
    const error: unknown = await store.read('payments', call).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: expect.stringMatching(/UNAUTHORIZED|NOT_FOUND/) })
    expect(JSON.stringify(error) + String(error) + String((error as Error).cause)).not.toContain('hunter2')
  })

  test('the store connects over TLS with a CA from the URL or the environment, and not without one', async () => {
    const { cert, key } = makeCertificate()
    const data = join(server().directory, 'data')
    const { uid, gid } = statSync(data)
    for (const [name, text] of Object.entries({ 'server.crt': cert, 'server.key': key })) {
      writeFileSync(join(data, name), text, { mode: 0o600 })
      chownSync(join(data, name), uid, gid)
    }
    const rules = join(data, 'pg_hba.conf')
    writeFileSync(rules, `hostssl all veiled all trust\nhost all veiled all reject\n${readFileSync(rules, 'utf8')}`)
    await admin.query(
      'create role veiled login; grant create on schema public to veiled; grant all on all tables in schema public to veiled',
    )
    await admin.query('alter system set ssl = on')
    await admin.query('select pg_reload_conf()')
    const read = async (query = '', environment = {}) => {
      const store = await openStore(`${urlFor('veiled')}?table=veiled${query}`, { environment })
      onTestFinished(() => store.close?.())
      return store.read('payments', call)
    }
    const file = join(data, 'server.crt')
    await expect.poll(() => read('', { TENURE_CA_FILE: file }).catch((error: Error) => error)).toBeUndefined()
    expect(await read(`&sslmode=verify-full&sslrootcert=${encodeURIComponent(file)}`)).toBeUndefined()
    await expect(read('&sslmode=verify-full')).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    await expect(read()).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
  })

  test('openStore accepts a PostgreSQL URL that names its table', async () => {
    const store = await openStore(`${server().url}?table=by_url`, { environment: {} })
    onTestFinished(() => store.close?.())
    const record = recordOf(await store.acquire(claimOf(), call))
    expect(await open({ table: 'by_url' }).read('payments', call)).toEqual(record)
    expect(texts(await (store as InspectableStore).inspect(call))).toEqual([])
  })
})

describeWith(postgres, 'postgresStore with a standby', (primary) => {
  let standby: RunningServer
  let admin: Pool
  beforeAll(async () => {
    admin = new Pool({ connectionString: primary().url, max: 2 })
    admin.on('error', () => {})
    standby = await start(standbyOf(primary()))
  })
  afterAll(async () => {
    await admin.end()
    await standby.stop()
  })

  test('the store refuses a replica, reports asynchronous ones, and survives a failover to a synchronous one', async () => {
    const store = postgresStore({ client: admin })
    const first = recordOf(await store.acquire(claimOf(), call))
    const replica = postgresStore({ client: poolAt(standby.url), createTable: false })
    await expect
      .poll(async () => replica.read('payments', call).catch((error: Error) => error), { timeout: 10_000 })
      .toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: true, message: expect.stringContaining('replica') })
    await expect(replica.acquire(claimOf({ attempt: 'b' }), call)).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: expect.stringContaining('primary'),
    })
    const asynchronous = ['unsafe: It has 1 replica and does not wait for it']
    expect(texts(await store.inspect(call))).toEqual(asynchronous)
    await admin.query('create role plain login')
    await admin.query(postgresSchema({ role: 'plain' }))
    const plain = postgresStore({ client: poolAt(primary().url.replace('postgres@', 'plain@')) })
    expect(texts(await plain.inspect(call))).toEqual(asynchronous)

    await admin.query(`alter system set synchronous_standby_names = 'standby'`)
    await admin.query('select pg_reload_conf()')
    const waitedFor = `select 1 from pg_stat_replication where sync_state = 'sync'`
    await expect.poll(async () => (await admin.query(waitedFor)).rows.length, { timeout: 10_000 }).toBe(1)
    expect(await store.inspect(call)).toEqual([])
    const local = postgresStore({ client: poolAt(primary().url, '-c synchronous_commit=local') })
    expect(texts(await local.inspect(call))).toEqual(['unsafe: synchronous_commit is local'])
    const written = postgresStore({ client: poolAt(primary().url, '-c synchronous_commit=remote_write') })
    expect(texts(await written.inspect(call))).toEqual(['tight: synchronous_commit is remote_write'])

    const renewed = recordOf(await store.renew(held(first), call))
    await primary().kill('SIGKILL')
    const promoted = poolAt(standby.url)
    await promoted.query('select pg_promote()')
    const successor = postgresStore({ client: promoted })
    expect(await successor.read('payments', call)).toEqual(renewed)
    const freed = recordOf(await successor.release(held(renewed), call))
    const next = recordOf(await successor.acquire(claimOf({ attempt: 'next', afterTerm: 1 }), call))
    expect(next.term).toBe(2)
    expect(Number.parseInt(next.version, 10)).toBeGreaterThan(Number.parseInt(freed.version, 10))
  })
})

describeWithPrograms(
  [programs.postgres, programs.pgbouncer],
  'postgresStore behind pgbouncer in transaction mode',
  () => {
    let server: RunningServer
    let pooler: RunningServer
    let pool: Pool
    beforeAll(async () => {
      server = await start(postgres)
      pooler = await start(pgbouncerFor(server))
      pool = new Pool({ connectionString: pooler.url, max: 10 })
      pool.on('error', () => {})
    })
    afterAll(async () => {
      await pool.end()
      await pooler.stop()
      await server.stop()
    })

    describe('postgresStore conforms behind pgbouncer', () => {
      const cases = storeConformance(
        () => ({
          store: postgresStore({ client: pool }),
          open: () => postgresStore({ client: pool }),
          remove: async (election) =>
            void (await pool.query('delete from tenure_leases where election = $1', [election])),
        }),
        { leaseDurationMs: 1_000 },
      )
      for (const { name, run } of cases) test.concurrent(name, run)
    })

    test('inspect reports that the pooler does not forward notifications', async () => {
      const connect = async () => {
        const client = new Client({ connectionString: pooler.url })
        await client.connect()
        return client
      }
      const behind = postgresStore({ connect })
      onTestFinished(() => behind.close?.())
      expect(texts(await behind.inspect(call))).toEqual(['tight: There is a pooler between this store and PostgreSQL'])
    })
  },
)
