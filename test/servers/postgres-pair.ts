import { Client, Pool } from 'pg'
import { onTestFinished, vi } from 'vitest'
import { postgres, standbyOf } from './postgres.ts'
import { startProxy } from './proxy.ts'
import { start, type RunningServer } from './server.ts'

/** Opens a pool that ends with the test. */
function poolAt(url: string): Pool {
  const pool = new Pool({ connectionString: url, max: 3 })
  pool.on('error', () => {})
  onTestFinished(() => pool.end())
  return pool
}

/** Opens a PostgreSQL that can get a synchronous standby, until the end of the test. */
export async function openPair() {
  const primary = await start(postgres)
  onTestFinished(() => primary.stop())
  const admin = poolAt(primary.url)
  /** The proxy between the two. */
  const link = await startProxy(primary.port)
  onTestFinished(() => link.stop())
  /** Sets `synchronous_standby_names`. */
  async function settle(names: string): Promise<void> {
    await admin.query(`alter system set synchronous_standby_names = '${names}'`)
    await admin.query('select pg_reload_conf()')
    await vi.waitUntil(
      async () => (await admin.query('show synchronous_standby_names')).rows[0]?.synchronous_standby_names === names,
      { timeout: 10_000 },
    )
  }
  /** Waits until this many commits wait for the standby. */
  async function waiting(count: number): Promise<void> {
    const commits = `select pid from pg_stat_activity where wait_event = 'SyncRep'`
    await vi.waitUntil(async () => (await admin.query(commits)).rows.length === count, { timeout: 10_000 })
  }
  return {
    primary,
    admin,
    link,
    settle,
    /** Starts a standby with the name `standby`, which replicates from now on. */
    async follow(): Promise<RunningServer> {
      const standby = await start(standbyOf(primary))
      onTestFinished(() => standby.stop())
      const own = poolAt(standby.url)
      const source = `host=127.0.0.1 port=${link.port} user=postgres application_name=standby`
      await own.query(`alter system set primary_conninfo = '${source}'`)
      await own.query('select pg_reload_conf()')
      // Wait until the primary streams to the standby on the new connection only.
      const streaming = `select application_name as name from pg_stat_replication where state = 'streaming'`
      const names = async () => (await admin.query<{ name: string }>(streaming)).rows.map(({ name }) => name)
      await vi.waitUntil(async () => link.opened > 0 && (await names()).join() === 'standby', { timeout: 20_000 })
      return standby
    },
    async waitUntilSynchronous(): Promise<void> {
      const synchronous = `select from pg_stat_replication where sync_state = 'sync'`
      await vi.waitUntil(async () => (await admin.query(synchronous)).rows.length === 1, { timeout: 10_000 })
    },
    /** Cancels a commit that waits for the standby, once there is one. The commit stays, and the server only warns. */
    async cancelCommit(): Promise<void> {
      await waiting(1)
      await admin.query(`select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'`)
    },
    /**
     * Releases a commit that waits for the standby, once there is one, by disabling synchronous replication for a
     * moment. The server confirms the commit without a warning.
     */
    async releaseCommit(): Promise<void> {
      await waiting(1)
      await settle('')
      await waiting(0)
      await settle('standby')
    },
  }
}

/** Promotes a standby whose primary is gone. */
export async function promote({ url }: Pick<RunningServer, 'url'>): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  await client.query('select pg_promote()')
  await client.end()
}
