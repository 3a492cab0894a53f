import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Pool } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { postgres } from '../../../../../test/servers/postgres.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { postgresStore } from '../../../src/stores/postgres/index.ts'

const { signal } = new AbortController()

/**
 * Runs a module to its end, and kills it if it does not end. Its standard error is not compared: on a busy machine, a
 * slow first call may be reported there.
 */
function runModule(text: string, url: string): Promise<{ code: number | null; killed: boolean; output: string }> {
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      ['--input-type=module', '--eval', text],
      { cwd: fileURLToPath(new URL('.', import.meta.url)), env: { ...process.env, URL: url }, timeout: 30_000 },
      (_error, stdout) => resolve({ code: child.exitCode, killed: child.killed, output: stdout }),
    )
  })
}

const opened = `
  import { Elector, lead, observe } from 'tenure'
  import { openStore } from 'tenure/stores'
  const store = await openStore(process.env.URL)`

describeWith(postgres, 'a process with a PostgreSQL store', (server) => {
  const ended = { code: 0, killed: false, output: 'done\n' }

  test.each<[string, string]>([
    ['its work is done', `${opened}; await lead({ store, election: 'once' }, async () => console.log('done'))`],
    [
      'its elector was stopped, with a watch open',
      `${opened}
      const elector = new Elector({ store, election: 'stopped' })
      elector.start()
      await elector.waitForLeadership()
      await elector.stop()
      console.log('done')`,
    ],
    [
      'its store was closed',
      `${opened}; await store.read('closed', { signal: AbortSignal.timeout(10000) })
      await store.close()
      console.log('done')`,
    ],
    [
      'the pool and the store are closed as documented',
      `import pg from 'pg'
      import { lead } from 'tenure'
      import { postgresStore } from 'tenure/stores/postgres'
      const pool = new pg.Pool({ connectionString: process.env.URL })
      const store = postgresStore({ client: pool, connect: () => pool.connect() })
      await lead({ store, election: 'pool' }, async () => void (await pool.query('select 1')))
      await store.close()
      await pool.end()
      console.log('done')`,
    ],
  ])('the process exits on its own when %s', async (_, text) => {
    expect(await runModule(text, server().url)).toEqual(ended)
  })

  test('the process stays alive while a watch is open, even before the tables exist', async () => {
    const text = `${opened}
      const stop = new AbortController()
      for await (const { change } of observe(store, 'watched', { signal: stop.signal })) {
        console.log(change)
        if (change === 'elected') stop.abort()
      }
      console.log('done')`
    const url = `${server().url}?table=watched`
    const watching = runModule(text, url)
    const pool = new Pool({ connectionString: server().url })
    onTestFinished(() => pool.end())
    const isConnected = `select 1 from pg_stat_activity where application_name = 'tenure' and query like '%watched%'`
    await expect.poll(async () => (await pool.query(isConnected)).rows.length, { timeout: 20_000 }).toBe(1)
    const claim = { election: 'watched', holder: 'ada', attempt: 'a', leaseDurationMs: 15_000, afterTerm: 0 }
    const store = postgresStore({ client: pool, table: 'watched' })
    expect(await store.acquire({ ...claim, metadata: {} }, { signal, timeoutMs: 5_000 })).toMatchObject({ ok: true })
    expect(await watching).toEqual({ code: 0, killed: false, output: 'state\nelected\ndone\n' })
  })

  test('the store reports a pool that has no connection left for the work', async () => {
    const pool = new Pool({ connectionString: server().url, max: 1 })
    onTestFinished(() => pool.end())
    const store = postgresStore({ client: pool, connect: () => pool.connect() })
    const refused = { code: 'INVALID_OPTION', message: expect.stringContaining('Set max to 2 or more') }
    await expect(store.read('payments', { signal, timeoutMs: 5_000 })).rejects.toMatchObject(refused)
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  })
})
