import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { findBlocks, readDocument, root } from '../documents.ts'
import type { Found } from '../servers/find-program.ts'
import { npmPackages } from '../servers/npm-packages.ts'
import { postgres } from '../servers/postgres.ts'
import { noteUntested } from '../servers/report-missing.ts'
import { describeWith } from '../servers/suite.ts'

let found: Found
beforeAll(async () => {
  found = await npmPackages('query-builders', ['drizzle-orm@0.45', 'knex@3', 'kysely@0.29', 'pg@8', 'typeorm@1'])
  if ('missing' in found) noteUntested('Tenure beside query builders', found.missing)
}, 320_000)

/** Returns the code of a document that contains this text. */
function blockWith(document: string, text: string): string {
  const block = findBlocks(document, readDocument(document)).find(
    ({ info, code }) => info[0] === 'javascript' && code.includes(text),
  )
  return block?.code ?? expect.unreachable(`${document} has no code with ${text}`)
}

/** Creates a folder in which a program finds the packages, the library, and the files of one migration. */
function newFolder(): string {
  if ('missing' in found) throw new Error(found.missing)
  const folder = mkdtempSync(join(tmpdir(), 'tenure-query-builders-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
  const modules = join(folder, 'node_modules')
  mkdirSync(modules)
  const installed = join(found.path, 'node_modules')
  for (const name of readdirSync(installed)) symlinkSync(join(installed, name), join(modules, name))
  symlinkSync(join(root, 'packages/tenure'), join(modules, 'tenure'))
  mkdirSync(join(folder, 'drizzle/meta'), { recursive: true })
  mkdirSync(join(folder, 'migrations'))
  const entry = { idx: 0, version: '7', when: 1, tag: '0000_first', breakpoints: true }
  const journal = { version: '7', dialect: 'postgresql', entries: [entry] }
  writeFileSync(join(folder, 'drizzle/meta/_journal.json'), JSON.stringify(journal))
  writeFileSync(join(folder, 'drizzle/0000_first.sql'), 'create table by_drizzle (id int)')
  writeFileSync(
    join(folder, 'migrations/001_first.cjs'),
    'exports.up = (db) => db.schema.createTable("by_knex", (table) => table.integer("id"))\nexports.down = () => {}\n',
  )
  return folder
}

/** Runs a program, and returns its output. */
async function run(folder: string, name: string, program: string, url: string): Promise<string> {
  writeFileSync(join(folder, `${name}.mjs`), program)
  const env = { ...process.env, DATABASE_URL: url }
  const options = { cwd: folder, env, timeout: 100_000 }
  return (await promisify(execFile)(process.execPath, [`${name}.mjs`], options)).stdout
}

const connectTypeorm = `
  import { DataSource } from 'typeorm'
  class First1700000000000 {
    up(runner) { return runner.query('create table by_typeorm (id int)') }
    down() {}
  }
  const dataSource = new DataSource({ type: 'postgres', url: process.env.DATABASE_URL, migrations: [First1700000000000] })
  await dataSource.initialize()`

describeWith(postgres, 'Tenure beside query builders', (server) => {
  const clients = {
    Kysely: `
      import { Kysely, PostgresDialect } from 'kysely'
      import { Pool } from 'pg'
      import { postgresStore } from 'tenure/stores/postgres'
      const db = new Kysely({ dialect: new PostgresDialect({ pool: new Pool({ connectionString: process.env.DATABASE_URL }) }) })
      ${blockWith('docs/stores/postgres.md', 'CompiledQuery')}
      const close = () => db.destroy()`,
    TypeORM: `
      import { postgresStore } from 'tenure/stores/postgres'
      ${connectTypeorm}
      const store = postgresStore({ client: dataSource.driver.master })
      const close = () => dataSource.destroy()`,
  }

  test.for(Object.entries(clients))(
    'postgresStore with the client of %s leads, refuses a second leader, keeps a checkpoint, and releases',
    { timeout: 120_000 },
    async ([name, program], { skip }) => {
      if ('missing' in found) return skip(found.missing)
      const check = `
        import { lead, withLock } from 'tenure'
        const text = 'Zürich ? :p1 $1'
        await lead({ store, election: '${name}' }, async (leadership) => {
          await leadership.setCheckpoint(text)
          const other = await withLock(store, '${name}', () => 'twice', { waitMs: 0 }).catch((error) => error.code)
          console.log(leadership.term, other)
        })
        const record = await store.read('${name}', { signal: AbortSignal.timeout(10_000) })
        console.log(record.released, record.checkpoint === text)
        console.log(await withLock(store, '${name}', ({ term }) => term))
        await close()`
      const output = await run(newFolder(), 'main', program + check, server().url)
      expect(output).toBe('1 LOCK_TIMEOUT\ntrue true\n2\n')
    },
  )

  const tools = {
    drizzle: `
      import { drizzle } from 'drizzle-orm/node-postgres'
      import { Pool } from 'pg'
      const db = drizzle({ client: new Pool({ connectionString: process.env.DATABASE_URL }) })
      const close = () => db.$client.end()
      ${blockWith('docs/how-to/migrations.md', 'drizzle-orm')}`,
    knex: `
      import knex from 'knex'
      const db = knex({ client: 'pg', connection: process.env.DATABASE_URL })
      const close = () => db.destroy()
      ${blockWith('docs/how-to/migrations.md', 'migrate.latest')}`,
    typeorm: `
      ${connectTypeorm}
      const close = () => dataSource.destroy()
      ${blockWith('docs/how-to/migrations.md', 'runMigrations')}`,
  }

  test.for(Object.entries(tools))(
    'the migration of %s runs in one of two processes, and not again at the next start',
    { timeout: 120_000 },
    async ([name, program], { skip }) => {
      if ('missing' in found) return skip(found.missing)
      const begin = `
        import { createJobs } from 'tenure/jobs'
        import { openStore } from 'tenure/stores'
        const store = await openStore(process.env.DATABASE_URL)
        const release = 'migrate by ${name}'
        // Prints the outcome of the call in the document.
        const jobs = { once: async (...call) => console.log(await createJobs({ store }).once(...call)) }
        `
      const whole = `${begin}${program}\nawait close()\nawait store.close()`
      const folder = newFolder()
      const both = await Promise.all(['a', 'b'].map((process) => run(folder, process, whole, server().url)))
      expect(both.toSorted()).toEqual(['already-done\n', 'ran\n'])
      expect(await run(folder, 'c', whole, server().url)).toBe('already-done\n')
      const client = new Client({ connectionString: server().url })
      await client.connect()
      const { rows } = await client.query(`select count(*)::int from by_${name}`)
      await client.end()
      expect(rows).toEqual([{ count: 0 }])
    },
  )
})
