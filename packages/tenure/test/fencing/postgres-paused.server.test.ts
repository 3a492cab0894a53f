/**
 * A former leader that is paused while it reads a result: its transaction is not idle, so it keeps the guard's row
 * locked.
 */
import { AssertionError, equal, ok } from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Pool } from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import { loadMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import { postgres } from '../../../../test/servers/postgres.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import * as sound from '../../src/fencing/postgres.ts'

/** Reads two gigabytes in its transaction, which takes longer than any wait in this test. */
const reader = `
import { Pool } from 'pg'
import { postgresFence } from 'tenure/fencing'
const [, url, resource] = process.argv
const pool = new Pool({ connectionString: url, application_name: 'former leader' })
const fence = postgresFence({ pool, resource, idleTimeoutMs: 200 })
await fence.run(1, async (connection) => {
  const reading = connection.query("select repeat('x', 1000) from generate_series(1, 2000000)")
  console.log('reading')
  await reading
})
`

const former = `select wait_event from pg_stat_activity where application_name = 'former leader'`

type Library = Pick<typeof sound, 'postgresFence'>

async function check({ postgresFence }: Library, url: string, resource: string): Promise<void> {
  const pool = new Pool({ connectionString: url, max: 3, options: '-c lock_timeout=77s' })
  pool.on('error', () => {})
  onTestFinished(() => pool.end())
  await pool.query(postgresFence({ pool, resource }).schema)
  const child = spawn(process.execPath, ['--input-type=module', '--eval', reader, url, resource], {
    cwd: import.meta.dirname,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await exited
  })
  await once(child.stdout, 'data')
  child.kill('SIGSTOP')
  const isStuck = async () => (await pool.query(former)).rows[0]?.wait_event === 'ClientWrite'
  await vi.waitUntil(isStuck, { timeout: 20_000 })

  const successor = postgresFence({ pool, resource, lockTimeoutMs: 500 })
  const run = successor
    .run(2, async () => {})
    .then(
      () => undefined,
      (error: unknown) => error,
    )
  const late = vi
    .waitUntil(async () => !(await isStuck()), { timeout: 5_000 })
    .then(
      () => 'the former leader continued',
      () => 'the successor waits without a limit',
    )
  const refusal: unknown = await Promise.race([run, late])
  // Frees the row before any assertion can fail, because a waiting call would keep the pool open.
  await pool.query(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'former leader'`)
  await run
  ok(refusal instanceof Error, String(refusal))
  equal(Reflect.get(refusal, 'code'), 'TIMEOUT')
  equal(Reflect.get(refusal, 'retryable'), true)
  ok(refusal.message.includes('pg_terminate_backend'))
  // The work has the lock timeout of its own session, not the guard's.
  const shown = await successor.run(2, async (connection) => (await connection.query('show lock_timeout')).rows)
  equal(shown[0]?.['lock_timeout'], '77s')
}

const mutations: readonly Mutation[] = [
  {
    name: "a successor waits for the guard's row without a limit",
    file: 'fencing/postgres.ts',
    find: '`set local lock_timeout = ${lockTimeoutMs}`',
    replace: '`set local lock_timeout = 0`',
  },
  {
    name: "the guard's lock timeout also applies to the work",
    file: 'fencing/postgres.ts',
    find: "set_config('lock_timeout', current_setting('tenure.lock_timeout'), true) as restored",
    replace: "current_setting('tenure.lock_timeout') as restored",
  },
]

describeWith(postgres, 'postgresFence with a paused former leader', (server) => {
  test('run rejects with TIMEOUT while a former leader is paused in the middle of a result, and succeeds once it is gone', () =>
    check(sound, server().url, 'payments'))

  test.for(mutations)('the check catches the mutant: $name', async (mutation) => {
    const { fencing } = await loadMutant<{ fencing: typeof sound }>(mutation, { fencing: 'fencing/postgres.ts' })
    await expect(check(fencing, server().url, mutation.name)).rejects.toThrow(AssertionError)
  })
})
