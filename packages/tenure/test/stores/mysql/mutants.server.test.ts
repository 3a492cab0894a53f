import { deepEqual, equal, ok } from 'node:assert/strict'
import {
  createPool,
  type Connection,
  type Pool,
  type PoolOptions,
  type ResultSetHeader,
  type RowDataPacket,
} from 'mysql2/promise'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { passes } from '../../../../../test/mutants/passes-check.ts'
import { mariadb } from '../../../../../test/servers/mariadb.ts'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { LeaseStore, Outcome } from '../../../src/engine/lease-store.ts'
import * as stores from '../../../src/stores/mysql/index.ts'
import * as addresses from '../../../src/stores/mysql/open.ts'
import { mysqlMutations } from './mutants.ts'
import { call, claimOf, connectTo, granted, late, short, waitingForLocks } from './scene.ts'

/** The store or a mutant of it, with its own table. */
interface Library {
  readonly pool: Pool
  readonly url: string
  readonly port: number
  readonly table: string
  open(options?: Partial<stores.MysqlStoreOptions>): LeaseStore
  /** Opens the store that a URL names. */
  readonly openMysql: typeof addresses.openMysql
}

/** A client whose server seems to be a MySQL, which cannot show open transactions. */
function asMysql(connection: Connection): stores.MysqlExecutor {
  return {
    async execute(sql, values) {
      const [result] = await connection.execute<RowDataPacket[] | ResultSetHeader>(sql, values)
      if (!Array.isArray(result)) return result.affectedRows
      return result.map((row) => (row['Variable_name'] === 'version' ? { ...row, Value: '8.0.36' } : row))
    },
  }
}

async function withConnection<T>(url: string, use: (connection: Connection) => Promise<T>): Promise<T> {
  const connection = await connectTo(url)
  try {
    return await use(connection)
  } finally {
    await connection.end()
  }
}

async function withPool<T>(options: PoolOptions, use: (pool: Pool) => Promise<T>): Promise<T> {
  const pool = createPool(options)
  try {
    return await use(pool)
  } finally {
    // A connection that hangs cannot be closed with an answer.
    await pool.end().catch(() => {})
  }
}

async function isRefused(acquiring: Promise<Outcome>): Promise<boolean> {
  const [outcome] = await Promise.allSettled([acquiring])
  return outcome.status === 'rejected' || !outcome.value.ok
}

/** Checks that change a variable of the whole server. */
const ofServer: Record<string, (library: Library) => Promise<void>> = {
  async 'nothing is granted when commits do not wait for the disk'({ open, pool }) {
    await open().acquire(claimOf({ election: 'any' }), call)
    await pool.query('set global innodb_flush_log_at_trx_commit = 0')
    try {
      ok(await isRefused(open().acquire(claimOf(), call)))
    } finally {
      await pool.query('set global innodb_flush_log_at_trx_commit = 1')
    }
  },

  async 'nothing is granted on a read-only server'({ open, pool }) {
    await open().acquire(claimOf({ election: 'any' }), call)
    await pool.query('set global read_only = 1')
    try {
      ok(await isRefused(open().acquire(claimOf(), call)))
    } finally {
      await pool.query('set global read_only = 0')
    }
  },
}

const checks: Record<string, (library: Library) => Promise<void>> = {
  ...ofServer,

  async 'a separately stored term that rose in the meantime is not granted again'({ open, pool, table }) {
    const store = open()
    const record = granted(await store.acquire(claimOf(), call))
    await store.release(held(record), call)
    await pool.query(`update ${table} set term = 7 where id = 'term/payments'`)
    const outcome = await store.acquire(claimOf({ attempt: 'second', afterTerm: 1 }), call)
    deepEqual([outcome.ok, outcome.ok || outcome.highestTerm], [false, 7])
  },

  async 'a refusal returns the newest record to a candidate that has read an older one'({ open }) {
    const [leader, other] = [open(), open()]
    const record = granted(await leader.acquire(claimOf(), call))
    await other.read('payments', call)
    const renewed = granted(await leader.renew(held(record), call))
    const late = claimOf({ attempt: 'late', afterTerm: 1, expiredVersion: record.version })
    const outcome = await other.acquire(late, call)
    equal(outcome.ok, false)
    equal(outcome.record?.version, renewed.version)
  },

  async 'a refusal returns the newest record even in an old snapshot'({ open, url }) {
    const leader = open()
    const record = granted(await leader.acquire(claimOf(), call))
    await withConnection(url, async (connection) => {
      await connection.query('set session transaction isolation level repeatable read')
      const store = open({ client: asMysql(connection) })
      await store.read('payments', call)
      await connection.query('start transaction with consistent snapshot')
      const renewed = granted(await leader.renew(held(record), call))
      const outcome = await store.renew(held(record), call)
      await connection.query('rollback')
      equal(outcome.ok, false)
      equal(outcome.record?.version, renewed.version)
    })
  },

  async 'a deadlock is a write that was not done, not an error'({ open, pool, url, table }) {
    const store = open()
    const record = granted(await store.acquire(claimOf(), call))
    await pool.query(`create table weight_${table} (id int primary key) engine = InnoDB`)
    await withConnection(url, async (holder) => {
      await holder.query('begin')
      // The server ends the transaction that has changed fewer rows.
      await holder.query(`insert into weight_${table} select seq from seq_1_to_100`)
      await holder.query(`update ${table} set confirmations = 1 where id = 'term/payments'`)
      const claim = claimOf({ attempt: 'second', afterTerm: 1, expiredVersion: record.version })
      const takeover = Promise.allSettled([store.acquire(claim, call)])
      await waitingForLocks(pool, 1)
      await holder.query(`update ${table} set confirmations = 1 where id = 'lease/payments'`)
      await holder.query('commit')
      const [outcome] = await takeover
      equal(outcome.status, 'fulfilled')
    })
  },

  async 'a lock of another session ends a call before its deadline'({ open, url, table }) {
    const store = open()
    const record = granted(await store.acquire(claimOf(), call))
    await withConnection(url, async (holder) => {
      await holder.query('begin')
      await holder.query(`update ${table} set confirmations = 1 where id = 'lease/payments'`)
      const [outcome] = await Promise.allSettled([store.renew(held(record), short)])
      await holder.query('rollback')
      ok(outcome.status === 'rejected')
      ok(/holds a lock/.test(String(outcome.reason)))
    })
  },

  async 'nothing is granted on a connection that does not commit by itself'({ open, url }) {
    await withConnection(url, async (connection) => {
      const store = open({ client: asMysql(connection) })
      await store.acquire(claimOf({ election: 'any' }), call)
      await connection.query('set autocommit = 0')
      const refused = await isRefused(store.acquire(claimOf(), call))
      await connection.query('rollback')
      ok(refused)
    })
  },

  async 'nothing is granted in a transaction that may be rolled back'({ open, url }) {
    await withConnection(url, async (connection) => {
      const store = open({ client: connection })
      await store.acquire(claimOf({ election: 'any' }), call)
      await connection.query('begin')
      const refused = await isRefused(store.acquire(claimOf(), call))
      await connection.query('rollback')
      ok(refused)
    })
  },

  async 'nothing is granted in a table without transactions'({ open, pool, table }) {
    await pool.query(stores.mysqlSchema({ table }).replace('InnoDB', 'MyISAM'))
    ok(await isRefused(open().acquire(claimOf(), call)))
  },

  async 'nothing is granted in a table that cuts records'({ open, pool, table }) {
    await pool.query(stores.mysqlSchema({ table }).replace('mediumblob', 'tinyblob'))
    ok(await isRefused(open().acquire(claimOf(), call)))
  },

  async 'names that differ only in case or trailing spaces have different leaders'({ open }) {
    const names = ['a', 'A', 'a ']
    const claims = names.map((election, index) => claimOf({ election, attempt: `a${index}` }))
    const outcomes = await Promise.allSettled(claims.map((claim) => open().acquire(claim, call)))
    deepEqual(
      outcomes.map((outcome) => outcome.status === 'fulfilled' && outcome.value.ok),
      [true, true, true],
    )
  },

  async 'texts are unchanged by a connection with another character set'({ open, url }) {
    await withPool({ uri: url, charset: 'latin1' }, async (client) => {
      const metadata = { zone: '∑ 😀' }
      granted(await open({ client }).acquire(claimOf({ metadata }), call))
      const [seen] = await Promise.allSettled([open().read('payments', call)])
      deepEqual(seen.status === 'fulfilled' && seen.value?.metadata, metadata)
    })
  },

  async 'a grant whose answer was lost is confirmed by a later write'({ open, pool, url, port, table }) {
    const proxy = await startProxy(port)
    try {
      await withPool({ uri: url.replace(String(port), String(proxy.port)) }, async (client) => {
        const store = open({ client })
        // Afterwards the statement is prepared on the connection, so that the next claim sends it at once.
        const brief = { ...call, timeoutMs: 1_900 }
        granted(await store.acquire(claimOf({ election: 'any', attempt: 'any' }), brief))
        proxy.set('blackhole', 'to-client')
        const [lost] = await Promise.allSettled([store.acquire(claimOf(), brief)])
        equal(lost.status, 'rejected')
        proxy.set('pass')
        granted(await store.acquire(claimOf(), call))
        const [rows] = await pool.query<RowDataPacket[]>(
          `select confirmations from ${table} where id = 'lease/payments'`,
        )
        deepEqual(
          rows.map(({ confirmations }) => Number(confirmations)),
          [1],
        )
      })
    } finally {
      proxy.stop()
    }
  },

  async 'a claim that timed out waiting for an exhausted pool is never sent'({ open, url }) {
    await withPool({ uri: url, connectionLimit: 1 }, async (small) => {
      const store = open({ client: small })
      await store.acquire(claimOf({ election: 'any' }), call)
      const busy = await small.getConnection()
      await store.acquire(claimOf(), late).catch(() => {})
      busy.release()
      // Every call that waited for the connection has used it by now.
      await small.query('select 1')
      equal(await open().read('payments', call), undefined)
    })
  },

  async 'a server at an IP address is refused with VERIFY_IDENTITY'({ openMysql, url }) {
    const [opened] = await Promise.allSettled([openMysql(`${url}?ssl-mode=VERIFY_IDENTITY`, {})])
    ok(opened.status === 'rejected' && opened.reason instanceof TypeError)
  },

  async 'a renewal does not wait behind one that hangs'({ open, url, port }) {
    const proxy = await startProxy(port)
    try {
      await withPool({ uri: url.replace(String(port), String(proxy.port)), connectionLimit: 1 }, async (client) => {
        const store = open({ client })
        const record = granted(await store.acquire(claimOf(), call))
        proxy.freezeExisting()
        const [first] = await Promise.allSettled([store.renew(held(record), late)])
        equal(first.status, 'rejected')
        const [second] = await Promise.allSettled([store.renew(held(record), short)])
        proxy.stop()
        equal(second.status, 'fulfilled')
      })
    } finally {
      proxy.stop()
    }
  },
}

function find(name: string, library: Library): () => Promise<void> {
  const { open, pool, table } = library
  const remove = async (election: string) => {
    await pool.execute(`delete from ${table} where id = ?`, [`lease/${election}`])
  }
  const cases = storeConformance(() => ({ store: open(), open, remove }), { leaseDurationMs: 1_000 })
  const run = cases.find((one) => one.name === name)?.run
  const check = checks[name]
  if (check) return () => check(library)
  if (!run) throw new Error(`There is no check "${name}".`)
  return run
}

describeWith(mariadb, 'mutants of mysqlStore', (server) => {
  let pool: Pool
  let tables = 0
  beforeAll(() => {
    pool = createPool({ uri: server().url, connectionLimit: 20 })
  })
  afterAll(() => pool.end())

  const libraryOf = ({ mysqlStore, openMysql }: typeof stores & typeof addresses): Library => {
    const table = `leases_${++tables}`
    return {
      pool,
      url: server().url,
      port: server().port,
      table,
      open: (options = {}) => mysqlStore({ client: pool, table, ...options }),
      openMysql,
    }
  }

  test.for(mysqlMutations)('the checks catch the mutant: $name', async (mutation) => {
    const modules = { stores: 'stores/mysql/index.ts', addresses: 'stores/mysql/open.ts' }
    const mutant = await loadMutant<{ stores: typeof stores; addresses: typeof addresses }>(mutation, modules)
    const mutated = { ...mutant.stores, ...mutant.addresses }
    const outcomes: boolean[] = []
    // One after the other, because some checks change the server or count the transactions that wait.
    for (const library of [{ ...stores, ...addresses }, mutated].map(libraryOf)) {
      outcomes.push(await passes(find(mutation.caughtBy, library)))
    }
    expect(outcomes).toEqual([true, false])
  })
})
