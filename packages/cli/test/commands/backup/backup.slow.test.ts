/** Tests `tenure backup` and `tenure restore` on the data of `tenure serve`. */
import { renameSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { serve, temporaryFolder, tenure } from '../../tenure.ts'

async function run(...args: string[]) {
  const { output, ended } = tenure(args)
  return { code: await ended, ...output }
}

async function campaign(url: string, node: string): Promise<unknown> {
  const body = JSON.stringify({ node_id: node, lease_ttl_ms: 60_000 })
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(`${url}/v1/groups/jobs/campaign`, { method: 'POST', headers, body })
  return answer.json()
}

test('a backup of a running service can be served elsewhere after a restore', async () => {
  const folder = temporaryFolder()
  const data = join(folder, 'data')
  const to = join(folder, 'backup')
  const service = await serve(data)
  await campaign(service.url, 'a')

  expect(await run('backup', '--data', data, '--to', to)).toMatchObject({
    code: 0,
    out: `Backed up ${data} to ${to}. Run "tenure restore --data ${to}" before a service uses the backup.\n`,
  })
  expect(await run('backup', '--data', data, '--to', to)).toMatchObject({
    code: 69,
    error: `tenure: ${to} already exists. Choose a new directory for the backup.\n`,
  })
  expect(await run('restore', '--data', data)).toMatchObject({
    code: 69,
    error: expect.stringContaining('is in use by another process'),
  })
  const refused = await run('serve', '--data', to, '--listen', '127.0.0.1:0')
  expect(refused).toMatchObject({ code: 69, error: expect.stringContaining(`"tenure restore --data ${to}" once`) })

  expect(await run('restore', '--data', to)).toMatchObject({
    code: 0,
    out: `Skipped a million terms in every election of ${to}. A service can use it now.\n`,
  })
  const restored = await serve(to)
  // The leader at the time of the backup may still believe that it leads.
  expect(await campaign(restored.url, 'b')).toMatchObject({ is_leader: false, highest_term: 1_000_001 })
  const wait = String.raw`, and nobody may for another \d+\.\ds\.`
  expect(await run('campaign', 'jobs', '--url', restored.url, '--identity', 'b')).toMatchObject({
    code: 1,
    out: expect.stringMatching(new RegExp(`^b does not lead jobs: nobody leads it${wait}\n$`)),
  })
  expect(await run('leader', 'jobs', '--url', restored.url)).toMatchObject({
    code: 1,
    out: expect.stringMatching(new RegExp(`^Nobody leads "jobs"${wait} a led last, in term 1\\.\n$`)),
  })
  const { out } = await run('leader', 'jobs', '--url', restored.url, '--json')
  const { freeInMs } = JSON.parse(out) as { freeInMs: number }
  expect(freeInMs).toBeGreaterThan(1_000)
  // The longest lease that may still be running, plus clock drift.
  expect(freeInMs).toBeLessThan(2 * 60_000)
}, 60_000)

test('missing options and missing directories are reported', async () => {
  const folder = temporaryFolder()
  expect(await run('backup', '--data', folder)).toMatchObject({ code: 2, error: expect.stringContaining('--to') })
  for (const command of [['restore'], ['backup', '--to', join(folder, 'to')]]) {
    expect(await run(...command, '--data', join(folder, 'none'))).toMatchObject({
      code: 69,
      error: `tenure: ${join(folder, 'none')} does not contain the data of a service.\n`,
    })
  }
})

test.skipIf(process.platform === 'win32')(
  'the log names a data directory that was moved away',
  async () => {
    const data = join(temporaryFolder(), 'data')
    const service = await serve(data)
    renameSync(data, `${data}-moved`)
    const text = `the data directory ${data} may be lost: nothing is granted or renewed from 5 s after the last proof`
    await expect.poll(() => service.lines().map(({ msg }) => msg), { timeout: 20_000 }).toContain(text)
  },
  60_000,
)
