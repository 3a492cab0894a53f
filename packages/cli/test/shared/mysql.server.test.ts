import { createConnection } from 'mysql2/promise'
import { beforeAll, expect, test } from 'vitest'
import { mariadb } from '../../../../test/servers/mariadb.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { run } from '../tenure.ts'

describeWith(mariadb, 'The command on MariaDB', (server) => {
  beforeAll(async () => {
    const admin = await createConnection({ uri: server().url })
    for (const statement of ['create user poor', 'create table other (id int)', 'grant select on other to poor']) {
      await admin.query(statement)
    }
    await admin.end()
  })

  test('tenure run and doctor link to the page of MySQL when the user may not create the table', async () => {
    const store = ['--store', server().url.replace('root', 'poor')]
    for (const command of [
      ['doctor', ...store],
      ['run', 'nightly', ...store, '--', 'true'],
    ]) {
      const { code, error } = await run(command)
      expect(code).toBe(69)
      expect(error).toMatch(/docs\/stores\/mysql\.md shows how an administrator gets the statement that creates it\./)
      expect(error).not.toMatch(/postgres|mysqlSchema/)
    }
  })

  test('tenure explains errors from MariaDB without a stack trace', async () => {
    const nowhere = await run(['leader', 'nightly', '--store', server().url.replace('/tenure', '/nowhere')])
    expect(nowhere).toMatchObject({ code: 69, error: expect.stringContaining('has no such database') })
    expect(nowhere.error).not.toMatch(/\n {4}at /)
    const address = `${server().url}?ssl-mode=VERIFY_IDENTITY`
    const unverifiable = await run(['leader', 'nightly', '--store', address])
    expect(unverifiable).toMatchObject({
      code: 2,
      error: expect.stringContaining('ssl-mode is "VERIFY_IDENTITY", but'),
    })
  })
})
