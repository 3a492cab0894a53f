import { deepEqual, equal, notEqual, ok } from 'node:assert/strict'
import { Client, Pool } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { giveUpSoon } from '../short-query-timeout.ts'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { passes } from '../../../../../test/mutants/passes-check.ts'
import { postgres } from '../../../../../test/servers/postgres.ts'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { systemClock } from '../../../src/common/clock.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { AcquireClaim, LeaseRecord, LeaseStore, Outcome } from '../../../src/engine/lease-store.ts'
import * as stores from '../../../src/stores/postgres/index.ts'
import { postgresMutations } from './mutants.ts'

/** The store or a mutant of it, with its own tables. */
interface Library {
  readonly pool: Pool
  readonly port: number
  readonly table: string
  open(options?: Partial<stores.PostgresStoreOptions>): LeaseStore
}

const { signal } = new AbortController()
const call = { signal, timeoutMs: 10_000 }
const late = { signal, timeoutMs: 150 }

function claimOf(change: Partial<AcquireClaim> = {}): AcquireClaim {
  const claim = { election: 'payments', holder: 'ada', attempt: 'first', leaseDurationMs: 15_000, afterTerm: 0 }
  return { ...claim, metadata: {}, ...change }
}

function granted(outcome: Outcome): LeaseRecord {
  ok(outcome.ok)
  return outcome.record
}

async function connectTo(port: number): Promise<Client> {
  const client = new Client(at(port))
  client.on('error', () => {})
  await client.connect()
  return client
}

/** Checks that supplement the conformance suite. */
const checks: Record<string, (library: Library) => Promise<void>> = {
  async 'a separately stored term is not granted again, even if a notification shows a lower term'({
    open,
    pool,
    port,
    table,
  }) {
    const standby = open({ client: undefined, connect: () => connectTo(port) })
    const leader = open()
    const record = granted(await leader.acquire(claimOf({ afterTerm: 8, expiredVersion: '' }), call))
    const freed = granted(await leader.release(held(record), call))
    const changes = standby.watch?.('payments', { signal })[Symbol.asyncIterator]()
    ok(changes)
    try {
      await changes.next()
      await pool.query(`update ${table} set record = replace(record, '"term":9', '"term":3'), version = version + 1`)
      await pool.query(`select pg_notify(channel, version || ' ' || record) from ${table}_meta, ${table}`)
      const { value } = await changes.next()
      equal(value?.term, 3)
      equal((await standby.acquire(claimOf({ attempt: 'next', afterTerm: 3 }), call)).ok, false)
      equal(freed.term, 9)
    } finally {
      await changes.return?.()
      await standby.close?.()
    }
  },

  async 'a refusal returns the leader to a candidate that has read nothing'({ open }) {
    const record = granted(await open().acquire(claimOf(), call))
    const refused = await open().acquire(claimOf({ attempt: 'other' }), call)
    deepEqual(refused, { ok: false, record, highestTerm: record.term })
  },

  async 'a serialization conflict is a refusal, not an error'({ open, pool, table, port }) {
    const strict = new Pool({ ...at(port), max: 4, options: '-c default_transaction_isolation=repeatable\\ read' })
    const holder = await pool.connect()
    try {
      const record = granted(await open().acquire(claimOf(), call))
      await holder.query('begin')
      await holder.query(`update ${table} set ends_at = ends_at`)
      const renewal = open({ client: strict }).renew(held(record), call)
      const settled = Promise.allSettled([renewal])
      const waits = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%"${table}"%'`
      await expect.poll(async () => (await pool.query(waits)).rows.length, { interval: 5 }).toBe(1)
      await holder.query('commit')
      const [{ status }] = await settled
      equal(status, 'fulfilled')
    } finally {
      holder.release()
      await strict.end()
    }
  },

  async 'nothing is granted when commits do not wait for the disk'({ open, port, pool, table }) {
    const careless = new Pool({ ...at(port), max: 2, options: '-c synchronous_commit=off' })
    try {
      await open({ client: careless })
        .acquire(claimOf(), call)
        .catch(() => {})
      equal((await pool.query(`select 1 from ${table}`)).rows.length, 0)
    } finally {
      await careless.end()
    }
  },

  async 'no version is reused after the tables were dropped'({ open, pool, table }) {
    const first = granted(await open().acquire(claimOf(), call))
    await pool.query(`drop table ${table}, ${table}_terms, ${table}_meta; drop sequence ${table}_version`)
    await pool.query(`drop function ${table}_notify`)
    const again = granted(await open().acquire(claimOf(), call))
    notEqual(again.version, first.version)
  },

  async "the server refuses a late renewal that the store's own clock would allow"({ open }) {
    const stopped = { ...systemClock, monotonicMs: () => 0 }
    const store = open({ trustServerClock: true, clock: stopped })
    const record = granted(await store.acquire(claimOf({ leaseDurationMs: 50 }), call))
    await new Promise<void>((resolve) => void systemClock.setTimer(80, resolve))
    equal((await store.renew(held(record), call)).ok, false)
  },

  async 'a renewal does not wait behind one that hangs'({ open, port }) {
    const proxy = await startProxy(port)
    const store = open({ client: undefined, connect: () => connectTo(proxy.port) })
    try {
      const record = granted(await store.acquire(claimOf(), call))
      proxy.freezeExisting()
      const [first] = await Promise.allSettled([store.renew(held(record), late)])
      equal(first.status, 'rejected')
      const [second] = await Promise.allSettled([store.renew(held(record), { signal, timeoutMs: 3_000 })])
      equal(second.status, 'fulfilled')
    } finally {
      proxy.stop()
      await store.close?.()
    }
  },

  async 'a claim that timed out waiting for an exhausted pool is never sent'({ open, port }) {
    const small = new Pool({ ...at(port), max: 1 })
    try {
      const store = open({ client: small })
      await store.acquire(claimOf({ election: 'any' }), call)
      const busy = await small.connect()
      await store.acquire(claimOf(), late).catch(() => {})
      busy.release()
      // Every call that waited for the connection has used it by now.
      await small.query('select 1')
      equal(await open().read('payments', call), undefined)
    } finally {
      await small.end()
    }
  },

  async 'roles with different search paths share one leader'({ open, port, pool, table }) {
    await pool.query(`create schema if not exists elsewhere_${table}`)
    const other = new Pool({ ...at(port), max: 2, options: `-c search_path=elsewhere_${table}` })
    try {
      granted(await open().acquire(claimOf(), call))
      equal((await open({ client: other }).acquire(claimOf({ attempt: 'other' }), call)).ok, false)
    } finally {
      await other.end()
    }
  },

  async 'two versions differ even if their sequence numbers are equal'({ open, pool, table }) {
    const store = open()
    const first = granted(await store.acquire(claimOf(), call))
    const lost = granted(await store.renew(held(first), call))
    // Restore the state of a replica that was promoted without the last renewal.
    const [before, after] = [first, lost].map(({ version }) => Number.parseInt(version, 10))
    const earlier = `version = $1, record = left(record, -14) || '000000000000"}'`
    await pool.query(`update ${table} set ${earlier}`, [before])
    await pool.query(`select setval('${table}_version', $1, false)`, [after])
    const shown = await open().read('payments', call)
    ok(shown)
    const renewed = granted(await open().renew(held(shown), call))
    equal(Number.parseInt(renewed.version, 10), after)
    const takeover = claimOf({ attempt: 'standby', afterTerm: 1, expiredVersion: lost.version })
    // Try it with a store that remembers the lost version, and with one that knows only the version of the claim.
    for (const standby of [store, open()]) equal((await standby.acquire(takeover, call)).ok, false)
  },

  async 'a connection that the client gave up on is replaced'({ open, port }) {
    const proxy = await startProxy(port)
    const opened: Client[] = []
    const connect = async () => {
      const client = await connectTo(proxy.port)
      opened.push(client)
      return client
    }
    const store = open({ client: undefined, connect })
    try {
      const record = granted(await store.acquire(claimOf(), call))
      proxy.freezeExisting()
      giveUpSoon(opened[0])
      const [first] = await Promise.allSettled([store.renew(held(record), call)])
      equal(first.status, 'rejected')
      const [second] = await Promise.allSettled([store.renew(held(record), call)])
      equal(second.status, 'fulfilled')
    } finally {
      proxy.stop()
      await store.close?.()
    }
  },

  async 'nothing is granted in a transaction that may be rolled back'({ open, pool, port, table }) {
    await pool.query(stores.postgresSchema({ table }))
    const client = await connectTo(port)
    try {
      await client.query('begin')
      const [{ status }] = await Promise.allSettled([open({ client }).acquire(claimOf(), call)])
      await client.query('rollback')
      equal(await open().read('payments', call), undefined)
      equal(status, 'rejected')
    } finally {
      await client.end()
    }
  },

  async 'a renewal succeeds after a pooler has discarded the prepared statements'({ open, port }) {
    const client = await connectTo(port)
    const store = open({ client: undefined, connect: async () => client })
    try {
      const first = granted(await store.acquire(claimOf(), call))
      const record = granted(await store.renew(held(first), call))
      await client.query('deallocate all')
      const [{ status }] = await Promise.allSettled([store.renew(held(record), call)])
      equal(status, 'fulfilled')
    } finally {
      await store.close?.()
    }
  },

  async 'two stores in one database never share a channel'({ open, pool, table }) {
    await open().acquire(claimOf(), call)
    const other = open({ table: `${table}_too` })
    await other.acquire(claimOf(), call)
    const channels = `select channel from ${table}_meta union select channel from ${table}_too_meta`
    equal((await pool.query(channels)).rows.length, 2)
  },
}

function at(port: number) {
  return { host: '127.0.0.1', port, user: 'postgres', database: 'postgres' }
}

function find(name: string, library: Library): () => Promise<void> {
  const { open, pool, table } = library
  const remove = async (election: string) => {
    await pool.query(`delete from ${table} where election = $1`, [election])
  }
  const cases = storeConformance(() => ({ store: open(), open, remove }), { leaseDurationMs: 1_000 })
  const run = cases.find((one) => one.name === name)?.run
  const check = checks[name]
  if (check) return () => check(library)
  if (!run) throw new Error(`There is no check "${name}".`)
  return run
}

describeWith(postgres, 'mutants of postgresStore', (server) => {
  let pool: Pool
  let tables = 0
  beforeAll(() => {
    pool = new Pool({ connectionString: server().url, max: 20 })
    pool.on('error', () => {})
  })
  afterAll(() => pool.end())

  const libraryOf = ({ postgresStore }: typeof stores): Library => {
    const table = `leases_${++tables}`
    return {
      pool,
      port: server().port,
      table,
      open: (options = {}) => postgresStore({ client: pool, table, ...options }),
    }
  }

  test.for(postgresMutations)('the checks catch the mutant: $name', async (mutation) => {
    const mutant = await loadMutant<{ stores: typeof stores }>(mutation, { stores: 'stores/postgres/index.ts' })
    const libraries = [stores, mutant.stores].map(libraryOf)
    const outcomes = libraries.map((library) => passes(find(mutation.caughtBy, library)))
    expect(await Promise.all(outcomes)).toEqual([true, false])
  })
})
