import { createPool, type Pool } from 'mysql2/promise'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { mariadb } from '../../../../../test/servers/mariadb.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { mysqlStore, type MysqlStoreOptions } from '../../../src/stores/mysql/index.ts'

describeWith(mariadb, 'mysqlStore', (server) => {
  let pool: Pool
  beforeAll(() => {
    pool = createPool({ uri: server().url, connectionLimit: 10 })
  })
  afterAll(() => pool.end())

  const ways: Record<string, () => MysqlStoreOptions> = {
    'with a pool': () => ({ client: pool, table: 'conforming' }),
  }
  describe.each(Object.entries(ways))('mysqlStore conforms %s', (_, optionsOf) => {
    const cases = storeConformance(
      () => ({
        store: mysqlStore(optionsOf()),
        open: () => mysqlStore(optionsOf()),
        remove: async (election) => void (await pool.execute(`delete from conforming where id = ?`, [`lease/${election}`])),
      }),
      { leaseDurationMs: 1_000 },
    )
    for (const { name, run } of cases) test.concurrent(name, run)
  })
})
