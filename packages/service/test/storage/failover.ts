/** A PostgreSQL with a standby, and what becomes of a batch when it fails over. */
import { equal, deepEqual, match, rejects } from 'node:assert/strict'
import { Client, Pool } from 'pg'
import type { openPostgresStatements } from 'tenure/stores/postgres'
import { onTestFinished, vi } from 'vitest'
import { postgres, standbyOf } from '../../../../test/servers/postgres.ts'
import { startProxy } from '../../../../test/servers/proxy.ts'
import { start } from '../../../../test/servers/server.ts'
import { restoreShared } from '../../src/storage/migrate.ts'
import type { ServerStorage } from '../../src/storage/server-storage.ts'
import { batchAfter, read, write } from './data.ts'
import { newTable, openPostgres, type PostgresStorages } from './postgres-world.ts'

export interface FailoverParts extends PostgresStorages {
  readonly openPostgresStatements: typeof openPostgresStatements
}

function poolAt(url: string): Pool {
  const pool = new Pool({ connectionString: url, max: 3 })
  pool.on('error', () => {})
  onTestFinished(() => pool.end())
  return pool
}

/** A primary with a standby that it waits for, once `synchronous` was called. */
async function openScene(parts: FailoverParts) {
  const primary = await start(postgres)
  onTestFinished(() => primary.stop())
  const table = newTable()
  const open = (url = primary.url): Promise<ServerStorage> =>
    openPostgres(parts, url, table, undefined, parts.openPostgresStatements)
  const admin = poolAt(primary.url)
  const settle = async (names: string) => {
    await admin.query(`alter system set synchronous_standby_names = '${names}'`)
    await admin.query('select pg_reload_conf()')
    await vi.waitUntil(
      async () => (await admin.query('show synchronous_standby_names')).rows[0]?.synchronous_standby_names === names,
    )
  }
  const link = await startProxy(primary.port)
  onTestFinished(() => link.stop())
  const follow = async () => {
    const standby = await start(standbyOf(primary))
    onTestFinished(() => standby.stop())
    const own = poolAt(standby.url)
    const source = `host=127.0.0.1 port=${link.port} user=postgres application_name=standby`
    await own.query(`alter system set primary_conninfo = '${source}'`)
    await own.query('select pg_reload_conf()')
    await vi.waitUntil(() => link.opened > 0, { timeout: 10_000 })
    return standby
  }
  const isSynchronous = async () =>
    (await admin.query(`select from pg_stat_replication where sync_state = 'sync'`)).rows.length === 1
  return { primary, table, link, admin, open, settle, follow, isSynchronous }
}

/** A standby takes the place of its primary, which is gone. */
async function promote(url: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  await client.query('select pg_promote()')
  await client.end()
}

export const failoverChecks: Readonly<Record<string, (parts: FailoverParts) => Promise<void>>> = {
  async 'a server is refused that has a replica and does not wait for it, or that no longer waits for one'(parts) {
    const { primary, table, open, settle, follow, isSynchronous } = await openScene(parts)
    const storage = await open()
    const head = await storage.head()
    const standby = await follow()
    await rejects(open(), /cannot be used: it has replicas \(1\) and waits for none of them.*synchronous_standby_names/)
    await rejects(storage.append(head, batchAfter(head, [])), /waits for none of them/)
    await rejects(storage.check(), /waits for none of them/)
    deepEqual(await storage.head(), head)
    await rejects(open(standby.url), /it is a replica/)
    await settle('standby')
    await vi.waitUntil(isSynchronous, { timeout: 10_000 })
    await write(storage, { id: 'a', record: { term: 1 } })
    await standby.stop()
    await settle('')
    // A failover to the one that is away would show a head that says that it was waited for.
    await rejects(storage.check(), /it has waited for a replica before/)
    await rejects(open(primary.url), /it has waited for a replica before.*tenure restore/)
    await restoreShared({ store: `${primary.url}?table=${table}`, environment: {} })
    await storage.check()
    equal((await (await open()).head()).restores, 1)
  },
  async 'a failover to a replica that was waited for has lost nothing'(parts) {
    const { primary, open, settle, follow, isSynchronous } = await openScene(parts)
    const storage = await open()
    await write(storage, { id: 'a', record: { term: 1 } })
    const standby = await follow()
    await settle('standby')
    await vi.waitUntil(isSynchronous, { timeout: 10_000 })
    await write(storage, { id: 'a', record: { term: 2 } }, { id: 'b', record: { term: 1 } })
    const head = await storage.head()
    await primary.kill('SIGKILL')
    await promote(standby.url)
    const successor = await open(standby.url)
    deepEqual(await successor.head(), head)
    const history = await successor.history()
    equal(history.isComplete, true)
    match(history.incarnation, /^\d+\/00000002$/)
    const noted = batchAfter(head, [], { incarnation: history.incarnation })
    equal(await successor.append(head, noted), 'done')
    deepEqual(await successor.history(), history)
    deepEqual(
      (await read(successor)).map(({ id, record }) => [id, record.term]),
      [
        ['a', 2],
        ['b', 1],
      ],
    )
  },
  async 'a commit whose wait for the replica was cancelled is not known to be done, and a failover may lose it'(parts) {
    const { primary, link, admin, open, settle, follow, isSynchronous } = await openScene(parts)
    const storage = await open()
    const standby = await follow()
    await settle('standby')
    await vi.waitUntil(isSynchronous, { timeout: 10_000 })
    await write(storage, { id: 'a', record: { term: 1 } })
    const head = await storage.head()
    link.freezeExisting()
    const batch = batchAfter(head, [{ id: 'a', record: { term: 1, ended: 'resigned' } }])
    const outcome = storage.append(head, batch).then(
      (appended) => appended,
      () => 'unknown',
    )
    const waiting = `select pid from pg_stat_activity where wait_event = 'SyncRep'`
    await vi.waitUntil(async () => (await admin.query(waiting)).rows.length === 1)
    await admin.query(`select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'`)
    equal(await outcome, 'unknown')
    // All who read see it.
    deepEqual(await storage.head(), batch.head)
    await primary.kill('SIGKILL')
    await promote(standby.url)
    const successor = await open(standby.url)
    deepEqual(await successor.head(), head)
    // Settled by a write: given up.
    equal(await successor.append(head, batchAfter(head, [])), 'done')
    equal(await successor.append(head, batch), 'fenced')
    deepEqual(
      (await read(successor)).map(({ record }) => record),
      [{ term: 1 }],
    )
  },
}
