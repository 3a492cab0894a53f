import { Client, Pool } from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { postgres } from '../../../../../test/servers/postgres.ts'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { AcquireClaim, LeaseRecord, LeaseStore, Outcome } from '../../../src/engine/lease-store.ts'
import { absentVersion } from '../../../src/engine/lease-store.ts'
import { observe } from '../../../src/engine/observe.ts'
import {
  postgresSchema,
  postgresStore,
  type PostgresQueryClient,
  type PostgresStoreOptions,
} from '../../../src/stores/postgres/index.ts'

const { signal } = new AbortController()
const call = { signal, timeoutMs: 5_000 }

describeWith(postgres, 'postgresStore', (server) => {
  let pool: Pool
  let tables = 0
  let table = ''
  beforeAll(() => {
    pool = new Pool({ connectionString: server().url, max: 10 })
    pool.on('error', () => {})
  })
  afterAll(() => pool.end())
  beforeEach(() => {
    table = `leases_${++tables}`
  })

  const connectTo = async (connectionString: string) => {
    const client = new Client({ connectionString })
    client.on('error', () => {})
    await client.connect()
    return client
  }
  const open = (options: Partial<PostgresStoreOptions> = {}): LeaseStore => {
    const store = postgresStore({ client: pool, table, ...options })
    onTestFinished(async () => store.close?.())
    return store
  }
  /** A pool that records its statements. */
  const noting = (texts: string[]): PostgresQueryClient => ({
    query(text, values) {
      texts.push(text)
      return pool.query(text, values)
    },
  })

  const ways: Record<string, () => PostgresStoreOptions> = {
    'with a pool': () => ({ client: pool, table: 'conforming' }),
    'with a dedicated connection': () => ({ connect: () => connectTo(server().url), table: 'conforming' }),
    "with the server's clock": () => ({ client: pool, table: 'conforming', trustServerClock: true }),
  }
  describe.each(Object.entries(ways))('postgresStore conforms %s', (_, optionsOf) => {
    const cases = storeConformance(
      () => ({
        store: postgresStore(optionsOf()),
        open: () => postgresStore(optionsOf()),
        remove: async (election) => void (await pool.query('delete from conforming where election = $1', [election])),
      }),
      { leaseDurationMs: 1_000 },
    )
    for (const { name, run } of cases) test.concurrent(name, run)
  })

  describe('statements of postgresStore', () => {
    test('a first grant, a renewal and a release take one statement each, once the tables were checked', async () => {
      const texts: string[] = []
      const store = open({ client: noting(texts) })
      await store.acquire(claimOf({ election: 'other' }), call)
      const counted = async (verb: () => Promise<Outcome>) => {
        texts.length = 0
        const { record } = granted(await verb())
        expect(texts).toHaveLength(1)
        return record
      }
      const first = await counted(() => store.acquire(claimOf(), call))
      const renewed = await counted(() => store.renew(held(first), call))
      expect(texts[0]).not.toContain('_terms')
      const freed = await counted(() => store.release(held(renewed), call))
      await counted(() => store.acquire(claimOf({ attempt: 'second', afterTerm: freed.term }), call))
    })

    test('a refused call reads the record again and returns the winner, never an older state', async () => {
      const [one, two] = [open(), open()]
      const { record } = granted(await one.acquire(claimOf(), call))
      await two.read(record.election, call)
      // The row is locked, so that the second statement begins before the first one's change is visible.
      const holder = await pool.connect()
      await holder.query('begin')
      await holder.query(`update ${table} set version = version where election = $1`, [record.election])
      const renewal = one.renew(held(record), call)
      await waitingStatements(1)
      const late = two.acquire(claimOf({ attempt: 'late', afterTerm: 1, expiredVersion: record.version }), call)
      await waitingStatements(2)
      await holder.query('commit')
      holder.release()
      // The server decides which of the two goes first.
      const [won, lost] = (await Promise.all([renewal, late])).toSorted((a, b) => Number(b.ok) - Number(a.ok))
      const { record: newest } = granted(won as Outcome)
      expect(lost).toMatchObject({ ok: false, highestTerm: newest.term, record: { version: newest.version } })
    })

    test.each(['repeatable read', 'serializable'])('a conflict under %s counts as a refusal', async (isolation) => {
      const strict = new Pool({
        connectionString: server().url,
        options: `-c default_transaction_isolation=${isolation.replace(' ', '\\ ')}`,
      })
      onTestFinished(() => strict.end())
      const [one, two] = [open({ client: strict }), open({ client: strict })]
      const { record } = granted(await one.acquire(claimOf(), call))
      await two.read(record.election, call)
      const holder = await pool.connect()
      await holder.query('begin')
      await holder.query(`update ${table} set ends_at = ends_at where election = $1`, [record.election])
      const renewals = [one, two].map((store) => store.renew(held(record), call))
      await waitingStatements(2)
      await holder.query('commit')
      holder.release()
      const outcomes = await Promise.all(renewals)
      const won = outcomes.filter(({ ok }) => ok)
      expect(won.length).toBeLessThanOrEqual(1)
      for (const { record: shown } of outcomes) expect(shown).toMatchObject({ attempt: record.attempt })
    })
  })

  describe('postgresStore when its tables are changed by hand', () => {
    test('TRUNCATE during a term does not free the lease, not even for a candidate that saw no record', async () => {
      const leader = open()
      const { record } = granted(await leader.acquire(claimOf({ leaseDurationMs: 7_000 }), call))
      await pool.query(`truncate ${table}`)
      const fresh = await open().acquire(claimOf({ attempt: 'fresh' }), call)
      expect(fresh).toEqual({ ok: false, highestTerm: 1, retryAfterMs: 7_000 })
      expect(await leader.renew(held(record), call)).toMatchObject({ ok: false })
      const waited = claimOf({ attempt: 'waited', afterTerm: 1, expiredVersion: absentVersion })
      const next = granted(await open().acquire(waited, call)).record
      expect(next.term).toBe(2)
      expect(counterOf(next)).toBeGreaterThan(counterOf(record))
    })

    test('a candidate that saw the last term gets a higher term after TRUNCATE of the terms table', async () => {
      const { record } = granted(await open().acquire(claimOf({ afterTerm: 6, expiredVersion: absentVersion }), call))
      expect(record.term).toBe(7)
      await pool.query(`truncate ${table}, ${table}_terms`)
      expect(await open().acquire(claimOf({ attempt: 'x', afterTerm: 7 }), call)).toMatchObject({ ok: false })
      const waited = claimOf({ attempt: 'y', afterTerm: 7, expiredVersion: absentVersion })
      expect(granted(await open().acquire(waited, call)).record.term).toBe(8)
    })

    test('the store recreates its tables after DROP TABLE and reuses no version', async () => {
      const store = open()
      const { record } = granted(await store.acquire(claimOf(), call))
      await pool.query(`drop table ${table}, ${table}_terms, ${table}_meta; drop sequence ${table}_version`)
      await pool.query(`drop function ${table}_notify`)
      await expect(store.renew(held(record), call)).rejects.toMatchObject({ code: 'NOT_FOUND', retryable: true })
      expect(await store.renew(held(record), call)).toMatchObject({ ok: false })
      const waited = claimOf({ attempt: 'waited', afterTerm: 1, expiredVersion: absentVersion })
      const next = granted(await store.acquire(waited, call)).record
      expect(next.term).toBe(2)
      expect(Math.abs(counterOf(next) - counterOf(record))).toBeGreaterThan(1_000_000)
    })

    test('a recorded term is not granted again when someone replaces the record with one of a lower term', async () => {
      const store = open()
      const { record } = granted(await store.acquire(claimOf({ afterTerm: 8, expiredVersion: absentVersion }), call))
      const { rows } = await pool.query(`select record from ${table}`)
      const text = rows[0].record.replace('"term":9', '"term":3').replace('"released":false', '"released":true')
      await pool.query(`update ${table} set record = $1, version = version + 1`, [text])
      const again = await open().acquire(claimOf({ attempt: 'again', afterTerm: 3 }), call)
      expect(again).toMatchObject({ ok: false, highestTerm: 9 })
      expect(record.term).toBe(9)
    })
  })

  describe('deadlines of postgresStore', () => {
    const hung = async () => {
      const proxy = await startProxy(server().port)
      onTestFinished(() => proxy.stop())
      return { proxy, url: server().url.replace(String(server().port), String(proxy.port)) }
    }
    const late = { signal, timeoutMs: 150 }

    test("a pool's connection that hangs is closed, and the next renewal uses another", async () => {
      const { proxy, url } = await hung()
      const behind = new Pool({ connectionString: url, max: 1 })
      behind.on('error', () => {})
      onTestFinished(() => behind.end())
      const store = open({ client: behind })
      const { record } = granted(await store.acquire(claimOf(), call))
      proxy.freezeExisting()
      await expect(store.renew(held(record), late)).rejects.toMatchObject({ code: 'TIMEOUT', retryable: true })
      granted(await store.renew(held(record), call))
      expect(proxy.opened).toBe(2)
    })

    test('a dedicated connection that hangs is replaced', async () => {
      const { proxy, url } = await hung()
      const store = open({ client: undefined, connect: () => connectTo(url) })
      const { record } = granted(await store.acquire(claimOf(), call))
      proxy.freezeExisting()
      await expect(store.renew(held(record), late)).rejects.toMatchObject({ code: 'TIMEOUT', retryable: true })
      granted(await store.renew(held(record), call))
      expect(proxy.opened).toBe(2)
    })

    test('a server that does not complete a connection blocks only the calls until their deadline', async () => {
      const { proxy, url } = await hung()
      proxy.set('hold')
      const store = open({ client: undefined, connect: () => connectTo(url) })
      await expect(store.read('any', late)).rejects.toMatchObject({ code: 'TIMEOUT' })
      proxy.set('pass')
      expect(await store.read('any', call)).toBeUndefined()
    })

    test('a claim that timed out waiting for an exhausted pool is never sent', async () => {
      const texts: string[] = []
      const small = new Pool({ connectionString: server().url, max: 1 })
      onTestFinished(() => small.end())
      const store = open({ client: small })
      await store.acquire(claimOf(), call)
      const busy = await small.connect()
      await expect(store.acquire(claimOf({ election: 'drained' }), late)).rejects.toMatchObject({ code: 'TIMEOUT' })
      busy.release()
      expect(await open({ client: noting(texts) }).read('drained', call)).toBeUndefined()
      expect(await store.read('drained', call)).toBeUndefined()
    })

    test('acquire finds its own grant after its answer was lost', async () => {
      const { proxy, url } = await hung()
      const store = open({ client: undefined, connect: () => connectTo(url) })
      await pool.query(postgresSchema({ table }))
      await store.read('any', call)
      proxy.set('blackhole', 'to-client')
      const claim = claimOf()
      await expect(store.acquire(claim, late)).rejects.toMatchObject({ code: 'TIMEOUT' })
      proxy.set('pass')
      expect(await store.acquire(claim, call)).toMatchObject({ ok: true, record: { attempt: claim.attempt, term: 1 } })
    })
  })

  describe('watches of postgresStore', () => {
    const watching = (store: LeaseStore, election: string) => {
      const end = new AbortController()
      onTestFinished(() => end.abort())
      const records = store.watch?.(election, { signal: end.signal })[Symbol.asyncIterator]()
      if (!records) throw new Error('the store cannot watch')
      return records
    }
    const own = () => open({ client: undefined, connect: () => connectTo(server().url) })

    test('a watch needs no statement while the leader renews', async () => {
      const leader = open()
      let { record } = granted(await leader.acquire(claimOf(), call))
      let statements = 0
      const connect = async () => {
        const client = await connectTo(server().url)
        const query = client.query.bind(client) as PostgresQueryClient['query']
        return Object.assign(client, {
          query: (text: string, values: (string | null)[]) => {
            statements++
            return query(text, values)
          },
        })
      }
      const records = watching(open({ client: undefined, connect }), record.election)
      await records.next()
      statements = 0
      for (let count = 0; count < 5; count++) {
        record = granted(await leader.renew(held(record), call)).record
        expect((await records.next()).value).toEqual(record)
      }
      expect(statements).toBe(0)
    })

    test('a watch shows a record that does not fit into a notification', async () => {
      const leader = open()
      const { record } = granted(await leader.acquire(claimOf(), call))
      const records = watching(own(), record.election)
      await records.next()
      const checkpoint = '€'.repeat(5_000)
      const renewed = granted(await leader.renew({ ...held(record), checkpoint }, call)).record
      expect((await records.next()).value).toEqual(renewed)
    })

    test('a watch is not misled by metadata that names its election', async () => {
      const { record } = granted(await open().acquire(claimOf(), call))
      const records = watching(own(), record.election)
      await records.next()
      const metadata = { election: record.election }
      granted(await open().acquire(claimOf({ election: 'other', attempt: 'other', metadata }), call))
      const renewed = granted(await open().renew(held(record), call)).record
      expect((await records.next()).value).toEqual(renewed)
    })

    test('a watch shows changes even if another watch of the same store was aborted before it began', async () => {
      const { record } = granted(await open().acquire(claimOf(), call))
      const store = own()
      const left = new AbortController()
      const early = store.watch?.(record.election, { signal: left.signal })[Symbol.asyncIterator]()
      const begun = early?.next()
      const records = watching(store, record.election)
      const first = records.next()
      left.abort()
      await begun
      expect((await first).value).toEqual(record)
      const renewed = granted(await open().renew(held(record), call)).record
      expect((await records.next()).value).toEqual(renewed)
    })

    test('a watch shows that there is no record after TRUNCATE', async () => {
      const { record } = granted(await open().acquire(claimOf(), call))
      const records = watching(own(), record.election)
      await records.next()
      await pool.query(`truncate ${table}`)
      expect((await records.next()).value).toBeUndefined()
    })

    test('observe reports elections, renewals, releases, and deletions that a watch shows', async () => {
      const leader = open()
      const end = new AbortController()
      const seen: string[] = []
      const looking = (async () => {
        for await (const { change } of observe(own(), 'payments', { signal: end.signal })) {
          seen.push(change)
          if (change === 'deleted') end.abort()
        }
      })()
      await expect.poll(() => seen).toEqual(['state'])
      const saw = (change: string) => expect.poll(() => seen.at(-1)).toBe(change)
      const { record } = granted(await leader.acquire(claimOf(), call))
      await saw('elected')
      const renewed = granted(await leader.renew(held(record), call)).record
      await saw('renewed')
      granted(await leader.release(held(renewed), call))
      await saw('released')
      granted(await leader.acquire(claimOf({ attempt: 'second', afterTerm: 1 }), call))
      await saw('elected')
      await pool.query(`delete from ${table}`)
      await looking
      expect(seen).toEqual(['state', 'elected', 'renewed', 'released', 'elected', 'deleted'])
    })

    test('a watch ends when its connection is lost', async () => {
      let pid: unknown
      const connect = async () => {
        const client = await connectTo(server().url)
        pid = (await client.query('select pg_backend_pid() as pid')).rows[0].pid
        return client
      }
      await pool.query(postgresSchema({ table }))
      const records = watching(open({ client: undefined, connect }), 'any')
      await records.next()
      const next = records.next()
      await pool.query('select pg_terminate_backend($1)', [pid])
      expect(await next).toMatchObject({ done: true })
    })

    test('the name of the notification channel is random', async () => {
      await open().acquire(claimOf(), call)
      await expect(pool.query(`select channel from ${table}_meta`)).resolves.toMatchObject({
        rows: [{ channel: expect.stringMatching(/^tenure_[0-9a-f]{32}$/) }],
      })
    })
  })

  test('many concurrent claims create the tables once', async () => {
    const stores = Array.from({ length: 8 }, () => open())
    const outcomes = await Promise.all(
      stores.map((store, index) => store.acquire(claimOf({ attempt: `a${index}` }), call)),
    )
    expect(outcomes.filter(({ ok }) => ok)).toHaveLength(1)
    expect((await pool.query(`select * from ${table}_meta`)).rows).toHaveLength(1)
  })

  test('read succeeds while another process creates the tables', async () => {
    let statements = 0
    const client: PostgresQueryClient = {
      async query(text, values) {
        // Create the tables after the first check, which finds nothing.
        if ((statements += 1) === 2) await pool.query(postgresSchema({ table }))
        return pool.query(text, values)
      },
    }
    expect(await open({ client }).read('payments', call)).toBeUndefined()
    expect(statements).toBeGreaterThan(1)
  })

  test('leases and terms survive a crash of the server', async () => {
    const store = open()
    const { record } = granted(await store.acquire(claimOf(), call))
    // For PostgreSQL, an immediate shutdown is a crash: the next start recovers from the log.
    await server().restart('SIGQUIT')
    expect(await open().read(record.election, call)).toEqual(record)
    granted(await open().renew(held(record), call))
  })

  async function waitingStatements(count: number): Promise<void> {
    const waiting = `select 1 from pg_stat_activity where wait_event_type = 'Lock'`
    await expect.poll(async () => (await pool.query(waiting)).rows.length, { interval: 5 }).toBe(count)
  }
})

function claimOf(change: Partial<AcquireClaim> = {}): AcquireClaim {
  const claim = { election: 'payments', holder: 'ada', attempt: 'first', leaseDurationMs: 15_000, afterTerm: 0 }
  return { ...claim, metadata: {}, ...change }
}

/** The sequence number in a version. */
function counterOf({ version }: LeaseRecord): number {
  return Number.parseInt(version, 10)
}

function granted(outcome: Outcome): Outcome & { ok: true; record: LeaseRecord } {
  if (!outcome.ok) throw new Error(`the call was refused: ${JSON.stringify(outcome)}`)
  return outcome
}
