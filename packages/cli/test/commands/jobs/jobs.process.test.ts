import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { lead } from '../../../../tenure/src/index.ts'
import { createJobs } from '../../../../tenure/src/jobs/index.ts'
import { fileStore } from '../../../../tenure/src/stores/file/index.ts'
import { linesOf, run, temporaryFolder } from '../../tenure.ts'

const folder = () => join(temporaryFolder(), 'leases')

test('tenure jobs shows jobs that were run from code and by the command, and no other elections', async () => {
  const directory = folder()
  const store = fileStore({ directory })
  const jobs = createJobs({ store, identity: 'node-17' })
  await jobs.once('migrate', () => undefined)
  await jobs
    .tryRun('import', () => {
      throw new Error(`no such table: ${'x'.repeat(100)}`)
    })
    .catch(() => undefined)
  jobs.every('0 3 1 1 *', { name: 'yearly', timezone: 'Europe/Zurich' }, () => undefined)
  await vi.waitUntil(async () => (await jobs.status()).find(({ name }) => name === 'yearly')?.term, {
    timeout: 20_000,
  })
  await lead({ store, election: 'not-a-job' }, () => undefined)
  const url = ['--store', `file://${directory}`]
  const worked = await run(['run', 'hourly', ...url, '--identity', 'm1', '--at-most-once-per', '1h', '--', 'true'])
  expect(worked.code).toBe(0)
  const { code, out, error } = await run(['jobs', ...url])
  expect({ code, error }).toEqual({ code: 0, error: '' })
  const [head, ...rows] = out.trimEnd().split('\n')
  expect(head).toMatch(/^JOB +SCHEDULE +NEXT +LAST +RESULT +TOOK +BY +TERM +ERROR$/)
  expect(rows).toEqual([
    expect.stringMatching(/^hourly +- +- +20\S+Z +succeeded +\S+ +m1 +1$/),
    expect.stringMatching(/^import +- +- +20\S+Z +failed +\S+ +node-17 +1 +no such table: x+…$/),
    expect.stringMatching(/^migrate +- +done +20\S+Z +succeeded +\S+ +node-17 +1$/),
    expect.stringMatching(/^yearly +0 3 1 1 \* Europe\/Zurich +20\S+T02:00:00.000Z +- +- +- +- +-$/),
  ])
  const listed = linesOf((await run(['jobs', ...url, '--json'])).out)
  expect(listed.find(({ name }) => name === 'import')).toMatchObject({
    term: 1,
    runs: [{ result: 'failed', by: 'node-17', error: expect.stringContaining('no such table') }],
  })
  expect(listed.map(({ name }) => name)).not.toContain('not-a-job')
  await jobs.close()
  await store.close?.()
})

test('tenure jobs marks a finished one-time job, and a schedule that no process runs anymore', async () => {
  const directory = folder()
  const store = fileStore({ directory })
  const jobs = createJobs({ store })
  await jobs.once('migrate', () => undefined)
  const call = { signal: new AbortController().signal }
  // The state in which the job's last process left it hours ago.
  const nextRun = new Date(Date.now() - 3_600_000).toISOString()
  const checkpoint = JSON.stringify({ lastRun: '2026-01-01T00:00:00.000Z', nextRun, schedule: 'every hour', runs: [] })
  const lease = { election: 'removed', holder: 'm1', attempt: 'a', leaseDurationMs: 15_000 }
  const grant = await store.acquire({ ...lease, afterTerm: 0, metadata: {} }, call)
  const { version = '', term = 0 } = grant.record ?? {}
  const renewed = await store.renew({ ...lease, term, version, checkpoint }, call)
  await store.release({ ...lease, term, version: renewed.record?.version ?? '' }, call)
  const url = ['--store', `file://${directory}`]
  const { out: listed } = await run(['jobs', ...url])
  expect(listed.trimEnd().split('\n').slice(1)).toEqual([
    expect.stringMatching(/^migrate +- +done +20/),
    expect.stringMatching(/^removed +every hour +no longer scheduled +/),
  ])
  const { out: elections } = await run(['groups', ...url])
  expect(elections.trimEnd().split('\n').slice(1)).toEqual([
    expect.stringMatching(/^migrate +- \(done\) +1 +-$/),
    expect.stringMatching(/^removed +- \(no longer scheduled\) +1 +-$/),
  ])
  await jobs.close()
  await store.close?.()
})

test('tenure jobs reports that there are no jobs, and reports records that it cannot read', async () => {
  const directory = folder()
  const empty = await run(['jobs', '--store', `file://${directory}`])
  expect(empty).toMatchObject({ code: 0, out: 'There are no jobs.\n' })
  expect(empty.error).toContain('does not exist yet')
  expect(await run(['jobs'])).toMatchObject({ code: 2, error: expect.stringContaining('--store is missing') })
  expect(await run(['jobs', '--store', 'http://127.0.0.1:1'])).toMatchObject({ code: 69 })
})
