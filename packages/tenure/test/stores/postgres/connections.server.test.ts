import { Client, Pool, type ClientBase, type PoolClient } from 'pg'
import postgresJs from 'postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { pgbouncerFor, postgres } from '../../../../../test/servers/postgres.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { start, type RunningServer } from '../../../../../test/servers/server.ts'
import { describeWith, describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { systemClock, type Clock } from '../../../src/common/clock.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import {
  absentVersion,
  type AcquireClaim,
  type LeaseRecord,
  type LeaseStore,
  type Outcome,
} from '../../../src/engine/lease-store.ts'
import { postgresSchema, postgresStore, type PostgresStoreOptions } from '../../../src/stores/postgres/index.ts'
import { giveUpSoon } from '../short-query-timeout.ts'

const { signal } = new AbortController()
const call = { signal, timeoutMs: 5_000 }
const late = { signal, timeoutMs: 150 }

function claimOf(change: Partial<AcquireClaim> = {}): AcquireClaim {
  const claim = { election: 'payments', holder: 'ada', attempt: 'first', leaseDurationMs: 15_000, afterTerm: 0 }
  return { ...claim, metadata: {}, ...change }
}

function recordOf(outcome: Outcome): LeaseRecord {
  if (!outcome.ok) throw new Error(`the call was refused: ${JSON.stringify(outcome)}`)
  return outcome.record
}

async function connectTo(connectionString: string): Promise<Client> {
  const client = new Client({ connectionString })
  client.on('error', () => {})
  await client.connect()
  return client
}

function poolAt(connectionString: string): Pool {
  const pool = new Pool({ connectionString, max: 1 })
  pool.on('error', () => {})
  onTestFinished(() => pool.end())
  return pool
}

function watching(store: LeaseStore, election = 'payments') {
  const end = new AbortController()
  onTestFinished(() => end.abort())
  const records = store.watch?.(election, { signal: end.signal })[Symbol.asyncIterator]()
  if (!records) throw new Error('the store cannot watch')
  return records
}

describeWith(postgres, 'connections of postgresStore', (server) => {
  let admin: Pool
  let tables = 0
  let table = ''
  beforeAll(() => {
    admin = new Pool({ connectionString: server().url, max: 4 })
    admin.on('error', () => {})
  })
  afterAll(() => admin.end())
  beforeEach(() => {
    table = `leases_${++tables}`
  })
  const urlFor = (user: string) => server().url.replace('postgres@', `${user}@`)
  const open = (options: Partial<PostgresStoreOptions> = {}): LeaseStore => {
    const store = postgresStore({ ...(options.connect ? {} : { client: admin }), table, ...options })
    onTestFinished(async () => store.close?.())
    return store
  }
  /** Creates a role with every right on this table, which must exist. */
  const createRole = async (name: string, settings: string) => {
    await admin.query(`create role ${name} login; ${settings}`)
    await admin.query(postgresSchema({ table, role: name }))
  }
  /** Ways to give a store one connection at a time. Opened connections are added to `opened`. */
  const ways: Record<string, (url: string, opened?: ClientBase[]) => Partial<PostgresStoreOptions>> = {
    'of a pool'(url, opened) {
      const pool = poolAt(url)
      pool.on('connect', (client) => opened?.push(client))
      return { client: pool }
    },
    'of the store': (url, opened) => ({
      async connect() {
        const client = await connectTo(url)
        opened?.push(client)
        return client
      },
    }),
  }

  describe.each(Object.entries(ways))('a connection %s', (way, optionsFor) => {
    test('the store replaces a connection on which the client gave up waiting', async () => {
      const proxy = await startProxy(server().port)
      onTestFinished(() => proxy.stop())
      const url = server().url.replace(String(server().port), String(proxy.port))
      const opened: ClientBase[] = []
      const store = open(optionsFor(url, opened))
      const record = recordOf(await store.acquire(claimOf(), call))
      proxy.freezeExisting()
      giveUpSoon(opened[0])
      await expect(store.renew(held(record), call)).rejects.toMatchObject({
        message: expect.stringMatching(/Query read timeout/),
      })
      recordOf(await store.renew(held(record), call))
    })

    test.each([
      ['synchronous_commit', 'off', 'UNSAFE_SETTINGS'],
      ['default_transaction_read_only', 'on', 'BACKEND_UNAVAILABLE'],
    ])(
      'the store replaces a connection when %s forbids writes, so that changing the role takes effect',
      async (setting, value, code) => {
        const role = `${way === 'of a pool' ? 'pooled' : 'own'}_${setting}`
        await createRole(role, `alter role ${role} set ${setting} = ${value}`)
        const store = open(optionsFor(urlFor(role)))
        await expect(store.acquire(claimOf(), call)).rejects.toMatchObject({ code })
        await admin.query(`alter role ${role} reset ${setting}`)
        recordOf(await store.acquire(claimOf(), call))
      },
    )

    test('the store grants nothing on a connection with an open transaction of another program, and replaces the connection', async () => {
      let given: Client | PoolClient | undefined
      const pool = poolAt(server().url)
      const begin = async () => {
        given ??= await pool.connect()
        await given.query('begin')
        return given
      }
      const client = await begin()
      if (way === 'of a pool' && 'release' in client) client.release()
      let opened = 0
      const connect = async () => (opened++ === 0 ? client : connectTo(server().url))
      const store = open(way === 'of a pool' ? { client: pool } : { connect })
      await admin.query(postgresSchema({ table }))
      const refused = { code: 'UNSAFE_SETTINGS', retryable: true, message: expect.stringContaining('transaction') }
      await expect(store.acquire(claimOf(), call)).rejects.toMatchObject(refused)
      recordOf(await store.acquire(claimOf({ attempt: 'again' }), call))
      expect(await open().read('payments', call)).toMatchObject({ attempt: 'again' })
    })
  })

  test('the store keeps its place in the queue of an exhausted pool, and closes no connection it did not use', async () => {
    const pool = poolAt(server().url)
    let made = 0
    pool.on('connect', () => made++)
    const busy = await pool.connect()
    const store = open({ connect: () => pool.connect() })
    await expect(store.read('any', late)).rejects.toMatchObject({ code: 'TIMEOUT' })
    await expect(store.read('any', late)).rejects.toMatchObject({ code: 'TIMEOUT' })
    const next = pool.connect()
    const read = store.read('any', call)
    busy.release()
    expect(await read).toBeUndefined()
    expect(made).toBe(1)
    await store.close?.()
    // The other connections requested in the meantime have been returned too.
    ;(await next).release()
    await expect.poll(() => [pool.waitingCount, pool.totalCount - pool.idleCount]).toEqual([0, 0])
  })

  test.each([
    ['a whole pool', () => admin],
    ['nothing', () => undefined],
    ['something else', () => ({ query: () => [] })],
  ])('the store refuses a connect() that returns %s', async (_, connection) => {
    const store = open({ connect: async () => connection() as never })
    await expect(store.read('payments', call)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining('pool.connect()'),
    })
    await admin.query('select 1')
  })

  test('the store prepares its statements, and works without them if they are lost', async () => {
    let client: Client | undefined
    const connect = async () => (client = await connectTo(server().url))
    const store = open({ connect })
    const first = recordOf(await store.acquire(claimOf(), call))
    const second = recordOf(await store.renew(held(first), call))
    const named = async () =>
      (await client?.query('select statement from pg_prepared_statements'))?.rows.map(({ statement }) => statement)
    expect(await named()).toContainEqual(expect.stringMatching(/^with limits .* update "public"."leases_/))
    await client?.query('deallocate all')
    const third = recordOf(await store.renew(held(second), call))
    recordOf(await store.renew(held(third), call))
    expect(await named()).toEqual([])
  })

  describe('watches of postgresStore', () => {
    /** The real clock, on which timers longer than the limit fire soon. */
    const hurried = (limit: { ms: number }): Clock => ({
      ...systemClock,
      setTimer: (delayMs, callback, options) =>
        systemClock.setTimer(delayMs > limit.ms ? 150 : delayMs, callback, options),
    })
    const silence = { ms: 15_000 }

    test('a watch fails when its connection hangs', async () => {
      const proxy = await startProxy(server().port)
      onTestFinished(() => proxy.stop())
      const url = server().url.replace(String(server().port), String(proxy.port))
      const limit = { ms: Infinity }
      const records = watching(open({ connect: () => connectTo(url), clock: hurried(limit) }))
      await records.next()
      proxy.freezeExisting()
      limit.ms = 0
      await expect(records.next()).rejects.toMatchObject({ code: 'TIMEOUT', retryable: true })
    })

    test('the store does not reuse a connection that could not start listening', async () => {
      await admin.query(postgresSchema({ table }))
      await createRole('narrow', 'alter role narrow connection limit 1')
      const connect = async () => postgresJs(urlFor('narrow'), { max: 1, onnotice: () => {} })
      const store = open({ connect })
      await expect(watching(store).next()).rejects.toMatchObject({
        message: expect.stringContaining('connection limit'),
      })
      await admin.query('alter role narrow connection limit -1')
      const records = watching(store)
      expect(await records.next()).toEqual({ done: false, value: undefined })
      const record = recordOf(await open().acquire(claimOf(), call))
      expect(await records.next()).toEqual({ done: false, value: record })
    })

    test('a watch starts again after the tables were dropped and recreated', async () => {
      const store = open({ connect: () => connectTo(server().url), clock: hurried(silence) })
      recordOf(await open().acquire(claimOf(), call))
      const old = watching(store)
      await old.next()
      const relations = `${table}, ${table}_terms, ${table}_meta; drop sequence ${table}_version`
      await admin.query(
        `begin; drop table ${relations}; drop function ${table}_notify; ${postgresSchema({ table })} commit`,
      )
      for (let seen = await old.next(); !seen.done; seen = await old.next()) expect(seen.value).toBeUndefined()
      const records = watching(store)
      expect(await records.next()).toEqual({ done: false, value: undefined })
      const record = recordOf(await open().acquire(claimOf({ attempt: 'new' }), call))
      const { value } = await records.next()
      expect(value).toEqual(record)
    })
  })

  test('the store never executes text that was planted as its channel', async () => {
    await admin.query(postgresSchema({ table }))
    await admin.query(`update ${table}_meta set channel = $1`, [`x"; create table ${table}_pwned (); --`])
    const store = open({ connect: () => connectTo(server().url) })
    const refused = { code: 'RECORD_INVALID', message: expect.stringContaining(`"public.${table}_meta"`) }
    await expect(watching(store).next()).rejects.toMatchObject(refused)
    const { rows } = await admin.query(`select to_regclass('${table}_pwned') as pwned`)
    expect(rows).toEqual([{ pwned: null }])
    for (let count = 0; count < 2; count++) {
      await admin.query(`delete from ${table}_meta`)
      await expect(open().read('any', call)).rejects.toMatchObject({ code: 'NOT_FOUND', retryable: true })
      recordOf(await store.acquire(claimOf({ election: `after ${count}`, attempt: `after ${count}` }), call))
      expect(await watching(store).next()).toEqual({ done: false, value: undefined })
    }
  })

  test('the store works with a client that rewrites column names', async () => {
    const sql = postgresJs(server().url, { max: 1, transform: postgresJs.camel, onnotice: () => {} })
    onTestFinished(() => sql.end())
    for (const trustServerClock of [false, true]) {
      const election = `trusting ${trustServerClock}`
      const store = open({ client: sql, trustServerClock })
      const record = recordOf(await store.acquire(claimOf({ election, attempt: election }), call))
      expect(await open({ client: sql, trustServerClock }).read(election, call)).toEqual(record)
    }
  })

  test.each(['terms', 'meta', 'version'])(
    'the store refuses a table whose name clashes with the tables of another store: suffix "%s"',
    async (suffix) => {
      const [one, other] = [`a${tables}`, `a${tables}_${suffix}`]
      for (const [first, second] of [
        [one, other],
        [`b${other}`, `b${one}`],
      ] as const) {
        await admin.query(postgresSchema({ table: first }))
        const foreign = { code: 'RECORD_INVALID', message: expect.stringContaining('another name') }
        await expect(open({ table: second }).acquire(claimOf(), call)).rejects.toMatchObject(foreign)
      }
    },
  )

  test('calls fail cleanly when the caller closes the client while they are in flight', async () => {
    const pool = new Pool({ connectionString: server().url, max: 2 })
    const client = await connectTo(server().url)
    const stores = [open({ client: pool }), open({ connect: () => pool.connect() }), open({ client })]
    for (const store of stores) await store.read('any', call)
    const calls = stores.flatMap((store) => [store.read('any', call), store.read('other', call)])
    const settled = Promise.allSettled(calls)
    await Promise.all([stores[1]?.close?.(), client.end()])
    await pool.end()
    await settled
    const closed = { 1: 'STOPPED' } as Record<number, string>
    for (const [index, store] of stores.entries()) {
      const code = closed[index] ?? 'BACKEND_UNAVAILABLE'
      await expect(store.read('any', call)).rejects.toMatchObject({ code })
    }
  })

  test('the store recreates a dropped table and grants a higher term than before', async () => {
    const store = open()
    recordOf(await store.acquire(claimOf({ afterTerm: 6, expiredVersion: absentVersion }), call))
    await admin.query(`drop table ${table}`)
    const claim = claimOf({ attempt: 'next', afterTerm: 7, expiredVersion: absentVersion })
    const incomplete = { code: 'NOT_FOUND', message: expect.stringContaining('postgresSchema()') }
    await expect(open({ createTable: false }).acquire(claim, call)).rejects.toMatchObject(incomplete)
    expect(recordOf(await open().acquire(claim, call)).term).toBe(8)
    await expect(store.read('payments', call)).resolves.toMatchObject({ term: 8 })
  })

  test('an observer needs only the SELECT privilege, and cannot send notifications', async () => {
    const record = recordOf(await open().acquire(claimOf(), call))
    await admin.query(`create role onlooker login; grant select on ${table}, ${table}_terms, ${table}_meta to onlooker`)
    const store = open({ connect: () => connectTo(urlFor('onlooker')), createTable: false })
    expect(await watching(store).next()).toEqual({ done: false, value: record })
    expect(await store.list?.({}, call)).toMatchObject({ records: [record] })
    await expect(store.renew(held(record), call)).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
    await admin.query('create schema theirs authorization onlooker')
    const theirs = await connectTo(urlFor('onlooker'))
    onTestFinished(() => theirs.end())
    await theirs.query('create table theirs.rows (election text)')
    const hook = `create trigger hook after delete on theirs.rows for each row execute function ${table}_notify()`
    await expect(theirs.query(hook)).rejects.toMatchObject({ code: '42501' })
  })
})

describeWithPrograms([programs.postgres, programs.pgbouncer], 'postgresStore behind a pooler', () => {
  let server: RunningServer
  let pooler: RunningServer
  beforeAll(async () => {
    server = await start(postgres)
    pooler = await start(pgbouncerFor(server))
  })
  afterAll(async () => {
    await pooler.stop()
    await server.stop()
  })

  test('renewals succeed on any connection of a pooler, prepared or not', async () => {
    const renewals = Array.from({ length: 8 }, async (_, index) => {
      const store = postgresStore({ connect: () => connectTo(pooler.url) })
      onTestFinished(() => store.close?.())
      const claim = claimOf({ election: `e${index}`, attempt: `a${index}` })
      let record = recordOf(await store.acquire(claim, call))
      for (let count = 0; count < 25; count++) record = recordOf(await store.renew(held(record), call))
      expect(record.term).toBe(1)
    })
    await Promise.all(renewals)
  })
})
