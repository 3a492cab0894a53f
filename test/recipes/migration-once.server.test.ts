import { cpSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Client } from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import { pathOf } from '../servers/find-program.ts'
import { postgres } from '../servers/postgres.ts'
import { programs } from '../servers/programs.ts'
import { describeWith } from '../servers/suite.ts'
import { exampleFile, newRecipeFolder, waitOptions, documentBlock, slowTest } from './recipe-folder.ts'

const command = documentBlock('A database migration once per deploy', 'sh')

describeWith(postgres, 'a database migration once per deploy', (server) => {
  let databases = 0

  /** Starts the instances of one deploy on an empty database. */
  const deploy = async () => {
    const name = `recipe_${++databases}`
    const admin = await connect(server().url)
    await admin.query(`create database ${name}`)
    const url = server().url.replace(/postgres$/, name)
    const client = await connect(url)
    const place = newRecipeFolder({ DATABASE_URL: url })
    cpSync(exampleFile('migration-once'), place.folder, { recursive: true })
    place.put('server', '#!/bin/bash\nexec psql -qtA "$DATABASE_URL" -c "select balance from accounts"\n')
    // psql is installed next to the server, or is on the PATH.
    const path = `${place.folder}:${process.env['PATH']}:${dirname(pathOf(programs.postgres))}`
    const store = `file://${join(place.folder, 'leases')}`
    const instance = () => place.machine(command, { TENURE_STORE: store, PATH: path })
    const applied = async () =>
      (await client.query<{ name: string }>('select name from migrations order by applied_at')).rows.map(
        (row) => row.name,
      )
    const migration = (file: string, sql: string) => writeFileSync(join(place.folder, 'migrations', file), sql)
    return { client, instance, applied, migration }
  }
  const files = ['001-accounts.sql', '002-house-account.sql']

  test(
    'migration-once: one of three instances migrates, and all start when the migration is done',
    slowTest,
    async () => {
      const { instance, applied } = await deploy()
      const instances = [instance(), instance(), instance()]
      expect(await Promise.all(instances.map(({ ended }) => ended))).toEqual([0, 0, 0])
      // The server reads data that was written once, before the server started.
      const said = instances.map(({ output }) => output.out.split('\n').filter(Boolean))
      for (const lines of said) expect(lines.at(-1)).toBe('100')
      expect(said.flatMap((lines) => lines.slice(0, -1)).map((line) => line.replace(/ in term \d$/, ''))).toEqual(
        files.map((file) => `applied ${file}`),
      )
      expect(await applied()).toEqual(files)
    },
  )

  test(
    'migration-once: a failed migration leaves nothing behind, prevents the server from starting, and can be repaired',
    slowTest,
    async () => {
      const { client, instance, applied, migration } = await deploy()
      migration('003-wrong.sql', "insert into accounts (id) values ('lost');\nselect 1 / 0;\n")
      const failed = instance()
      expect(await failed.ended).toBe(3)
      expect(failed.output.error).toContain('division by zero')
      expect(await applied()).toEqual(files)
      expect((await client.query('select id from accounts')).rows).toEqual([{ id: 'house' }])
      migration('003-wrong.sql', "insert into accounts (id, balance) values ('found', 7);\n")
      const mended = instance()
      expect(await mended.ended).toBe(0)
      expect(mended.output.out.split('\n')).toEqual(['applied 003-wrong.sql in term 2', '100', '7', ''])
    },
  )

  test('migration-once: the next instance completes the migration of a killed one', slowTest, async () => {
    const { client, instance, applied, migration } = await deploy()
    migration('003-slow.sql', "insert into accounts (id) values ('slow');\nselect pg_sleep(2);\n")
    const first = instance()
    await vi.waitUntil(async () => {
      const query = "select from pg_stat_activity where query like '%pg_sleep(2)%' and pid <> pg_backend_pid()"
      return (await client.query(query)).rowCount === 1
    }, waitOptions)
    const second = instance()
    await second.says('; waiting')
    // Kills the shell and the tenure process in it.
    process.kill(-(first.child.pid ?? NaN), 'SIGKILL')
    expect(await second.ended).toBe(0)
    expect(await applied()).toEqual([...files, '003-slow.sql'])
    expect((await client.query("select from accounts where id = 'slow'")).rowCount).toBe(1)
  })
})

async function connect(url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  onTestFinished(() => client.end())
  await client.connect()
  return client
}
