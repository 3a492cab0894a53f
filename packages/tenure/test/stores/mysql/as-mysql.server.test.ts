import { createPool, type Pool, type ResultSetHeader, type RowDataPacket } from 'mysql2/promise'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { mariadbWith } from '../../../../../test/servers/mariadb.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { LeaseStore } from '../../../src/engine/lease-store.ts'
import { openStore } from '../../../src/stores/index.ts'
import { mysqlStore, type MysqlExecutor } from '../../../src/stores/mysql/index.ts'
import { call, claimOf, connectTo, granted } from './scene.ts'

/**
 * A MariaDB that reports the version of a MySQL gets the statements for MySQL. Its other settings are those that
 * silently change or cut text, or that an old application may need.
 */
const odd = mariadbWith({
  version: '8.0.36',
  'sql-mode': 'ANSI,NO_BACKSLASH_ESCAPES,EMPTY_STRING_IS_NULL,PAD_CHAR_TO_FULL_LENGTH,IGNORE_SPACE',
  'character-set-server': 'latin1',
  'collation-server': 'latin1_swedish_ci',
  'transaction-isolation': 'READ-COMMITTED',
  'lower-case-table-names': 1,
})

describeWith(odd, 'mysqlStore on a server with the statements for MySQL and odd settings', (server) => {
  let pool: Pool
  const stores: LeaseStore[] = []
  const open = async () => {
    const store = await openStore(`${server().url}?table=conforming`, { environment: {} })
    stores.push(store)
    return store
  }
  beforeAll(() => {
    pool = createPool({ uri: server().url, charset: 'latin1' })
  })
  afterAll(async () => {
    await pool.end()
    for (const store of stores) await store.close?.()
  })

  describe('mysqlStore conforms with the URL of a store', () => {
    let shared: Promise<LeaseStore> | undefined
    let second: Promise<LeaseStore> | undefined
    // Closing a store twice has no effect, so the cases can share their connections.
    const keep = async (store: Promise<LeaseStore>) => ({ ...(await store), close: async () => {} })
    const cases = storeConformance(
      async () => ({
        store: await keep((shared ??= open())),
        open: () => keep((second ??= open())),
        remove: async (election) =>
          void (await pool.execute('delete from conforming where id = unhex(?)', [
            Buffer.from(`lease/${election}`).toString('hex'),
          ])),
      }),
      { leaseDurationMs: 1_000 },
    )
    for (const { name, run } of cases) test.concurrent(name, run)
  })

  test('texts are unchanged by a connection with another character set', async () => {
    const metadata = { zone: 'Zürich \\ "😀" \' ? :id ∑' }
    const election = 'Ωμέγα 😀 '
    const store = mysqlStore({ client: pool, table: 'latin' })
    const record = granted(await store.acquire(claimOf({ election, holder: 'Жанна\\', metadata }), call))
    const other = await openStore(`${server().url}?table=latin`, { environment: {} })
    stores.push(other)
    expect(await other.read(election, call)).toEqual({ ...record, holder: 'Жанна\\', metadata })
  })

  test('a write in a transaction of other code grants nothing, and a read in it shows the newest record', async () => {
    const record = granted(await mysqlStore({ client: pool, table: 'opened' }).acquire(claimOf(), call))
    const client = await connectTo(server().url)
    await client.query('set session transaction isolation level repeatable read')
    // This client does not report the status of its connection.
    const blind: MysqlExecutor = {
      async execute(sql, values) {
        const [result] = await client.execute<RowDataPacket[] | ResultSetHeader>(sql, values)
        return Array.isArray(result) ? result : result.affectedRows
      },
    }
    const [store, seeing] = [blind, client].map((each) => mysqlStore({ client: each, table: 'opened' }))
    if (!store || !seeing) throw new Error('there are two stores')
    await store.read('payments', call)
    await seeing.read('payments', call)
    await client.query('start transaction with consistent snapshot')
    const renewed = granted(await mysqlStore({ client: pool, table: 'opened' }).renew(held(record), call))
    expect(await store.renew(held(record), call)).toMatchObject({ ok: false, record: { version: renewed.version } })
    const refused = {
      code: 'UNSAFE_SETTINGS',
      retryable: true,
      message: expect.stringContaining('opened a transaction'),
    }
    await expect(seeing.release(held(renewed), call)).rejects.toMatchObject(refused)
    await client.query('rollback')
    await client.end()
    expect(await mysqlStore({ client: pool, table: 'opened' }).read('payments', call)).toEqual(renewed)
  })
})
