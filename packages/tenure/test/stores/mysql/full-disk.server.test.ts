import { createPool } from 'mysql2/promise'
import { expect, onTestFinished, test, vi } from 'vitest'
import { mariadb } from '../../../../../test/servers/mariadb.ts'
import { start } from '../../../../../test/servers/server.ts'
import { mayMount, smallDisk } from '../../../../../test/servers/small-disk.ts'
import { describeWithPrograms, describeWithRight } from '../../../../../test/servers/suite.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import { mysqlStore } from '../../../src/stores/mysql/index.ts'
import { call, claimOf, granted } from './scene.ts'

describeWithPrograms([mariadb.program], 'mysqlStore and the disk of its server', () => {
  describeWithRight(mayMount ? undefined : 'this user may not mount one', 'mysqlStore on a full file system', () => {
    test('the store grants nothing on a full disk, keeps its leases, and recovers when there is space again', async () => {
      const disk = smallDisk({ megabytes: 64 })
      vi.stubEnv('TENURE_SERVER_DATA', disk.directory)
      onTestFinished(() => void vi.unstubAllEnvs())
      const server = await start(mariadb)
      onTestFinished(() => server.stop())
      const pool = createPool({ uri: server.url })
      onTestFinished(() => pool.end())
      const store = mysqlStore({ client: pool })
      const record = granted(await store.acquire(claimOf(), call))
      const full = { code: 'BACKEND_UNAVAILABLE', retryable: true, message: expect.stringContaining('full') }

      disk.fill()
      const claims = Array.from({ length: 500 }, (_, index) =>
        claimOf({ election: `e${index}`, metadata: { pad: 'x'.repeat(4_000) } }),
      )
      let election = ''
      const fillTable = async () => {
        for (const claim of claims) {
          election = claim.election
          granted(await store.acquire(claim, call))
        }
      }
      await expect(fillTable()).rejects.toMatchObject(full)
      expect(await store.read(election, call)).toBeUndefined()
      const renewed = granted(await store.renew(held(record), call))
      // A store that has not looked at its table yet, and one whose table is missing.
      await expect(mysqlStore({ client: pool }).read('payments', call)).rejects.toMatchObject(full)
      await expect(mysqlStore({ client: pool, table: 'others' }).acquire(claimOf(), call)).rejects.toMatchObject(full)

      disk.free()
      granted(await store.acquire(claimOf({ election }), call))
      granted(await mysqlStore({ client: pool, table: 'others' }).acquire(claimOf(), call))
      expect(await mysqlStore({ client: pool }).read('payments', call)).toEqual(renewed)
    })
  })
})
