import { Pool } from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import { postgres } from '../../../../test/servers/postgres.ts'
import { freePort } from '../../../../test/servers/free-port.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { linesOf, run, temporaryFolder, tenure } from '../tenure.ts'

describeWith(postgres, 'The command on PostgreSQL', (server) => {
  test('tenure run on PostgreSQL runs a job on one of two machines and hands over, and tenure leader shows the leader', async () => {
    const folder = temporaryFolder()
    const store = ['--store', server().url]
    const job = (name: string) =>
      tenure(
        [
          'run',
          'nightly',
          ...store,
          '--ttl',
          '3s',
          '--identity',
          name,
          '--',
          'sh',
          '-c',
          `echo ${name} >> job; sleep 60`,
        ],
        {
          cwd: folder,
        },
      )
    const watch = tenure(['watch', 'nightly', ...store, '--json'])
    const one = job('one')
    const leads = async (name: string) => {
      await vi.waitUntil(async () => (await run(['leader', 'nightly', ...store])).out.includes(name), {
        timeout: 20_000,
        interval: 100,
      })
    }
    await leads('one')
    const two = job('two')
    const groups = await run(['groups', ...store, '--json'])
    expect(groups.out).toContain('nightly')
    await vi.waitUntil(() => two.output.error !== '', { timeout: 20_000 })
    one.child.kill('SIGTERM')
    await one.ended
    await leads('two')
    two.child.kill('SIGTERM')
    await two.ended
    expect((await run(['leader', 'nightly', ...store])).code).toBe(1)
    const seen = () => linesOf(watch.output.out).map((line) => JSON.stringify(line))
    await vi.waitUntil(() => seen().some((line) => line.includes('two') && line.includes('released')), {
      timeout: 10_000,
    })
    watch.child.kill('SIGTERM')
    await watch.ended
  })

  test('tenure sidecar reports the leader of an election on PostgreSQL', async () => {
    const port = await freePort()
    const url = `http://127.0.0.1:${port}`
    tenure(['sidecar', 'payments', '--store', server().url, '--listen', `127.0.0.1:${port}`, '--identity', 'pod-a'])
    const answer = async () =>
      fetch(`${url}/leader`).then(
        (response) => response.text(),
        () => '',
      )
    await vi.waitUntil(async () => (await answer()).includes('pod-a'), { timeout: 20_000, interval: 50 })
  })

  test('tenure doctor checks the settings of PostgreSQL', async () => {
    const { code, out, error } = await run(['doctor', '--store', server().url, '--ttl', '10m', '--calls', '5'])
    expect({ code, error }).toEqual({ code: 0, error: '' })
    expect(out).toMatch(/^settings no problems with the settings of the server$/m)
    expect(out).toMatch(/^watch +shows a change after /m)
    expect(out).toMatch(
      /^race +16 concurrent creates: one winner in \d rounds?; 16 concurrent swaps: one winner in \d /m,
    )
    const unsafe = await run(['doctor', '--ttl', '10m', '--calls', '5'], {
      env: { TENURE_STORE: `${server().url}?options=-c%20synchronous_commit%3Doff` },
    })
    expect(unsafe).toMatchObject({ code: 69, error: expect.stringContaining('synchronous_commit is off') })
  })

  test('commands that only read create no tables in PostgreSQL', async () => {
    const store = `${server().url}?table=unseen`
    expect(await run(['leader', 'nightly', '--store', store])).toMatchObject({ code: 1, error: '' })
    expect(await run(['groups', '--store', store])).toMatchObject({ code: 0, error: '' })
    const pool = new Pool({ connectionString: server().url })
    onTestFinished(() => pool.end())
    expect((await pool.query("select relname from pg_class where relname like 'unseen%'")).rows).toEqual([])
  })

  test('tenure run reports that it kills the command at once when its record in PostgreSQL is gone', async () => {
    const store = `${server().url}?table=emptied`
    const command = ['--', 'sh', '-c', 'trap "echo trapped" TERM; sleep 60 & wait']
    const job = tenure(['run', 'emptied', '--store', store, '--ttl', '3s', ...command])
    await vi.waitUntil(() => job.output.error.includes('leads "emptied"'), { timeout: 20_000 })
    const pool = new Pool({ connectionString: server().url })
    onTestFinished(() => pool.end())
    await pool.query('truncate emptied')
    const told = /deleted or overwritten in the store\. The command gets SIGKILL at once/
    await vi.waitUntil(() => told.test(job.output.error), { timeout: 20_000 })
    expect(job.output.error).not.toContain('SIGTERM')
    job.child.kill('SIGTERM')
    await job.ended
  })

  test('tenure explains errors from PostgreSQL without a stack trace', async () => {
    const nowhere = await run(['leader', 'nightly', '--store', `${server().url.replace(/\/postgres$/, '/nowhere')}`])
    expect(nowhere).toMatchObject({ code: 69, error: expect.stringContaining('has no such database') })
    for (const command of [['doctor'], ['run', 'nightly', '--', 'true']]) {
      const [name = '', ...rest] = command
      const noSchema = await run([name, '--store', `${server().url}?table=nowhere.leases`, ...rest])
      expect(noSchema).toMatchObject({ code: 69, error: expect.stringContaining('schema of "nowhere.leases"') })
    }
    const pool = new Pool({ connectionString: server().url })
    onTestFinished(() => pool.end())
    await pool.query('create role poor login')
    const absent = `${server().url.replace('postgres@', 'poor@')}?table=absent`
    const poor = await run(['run', 'nightly', '--store', absent, '--', 'true'])
    const page = /docs\/stores\/postgres\.md shows how an administrator gets the statements that create it/
    expect(poor).toMatchObject({ code: 69, error: expect.stringMatching(page) })
    const slip = await run(['leader', 'nightly', '--store', `${server().url}?tabel=leases`])
    const meant = '--store has a parameter "tabel", which is not supported. Did you mean "table"?'
    expect(slip).toMatchObject({ code: 2, error: expect.stringContaining(meant) })
    const refused = await run(['leader', 'nightly', '--store', `postgres://127.0.0.1:${await freePort()}/postgres`])
    expect(refused).toMatchObject({ code: 69, error: expect.stringContaining('Nothing is listening there') })
    for (const { error } of [nowhere, refused]) expect(error).not.toMatch(/\n {4}at /)
  })
})
