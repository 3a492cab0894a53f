import { pathToFileURL } from 'node:url'
import { Elector } from 'tenure'
import { fileStore } from 'tenure/stores/file'
import { expect, onTestFinished, test } from 'vitest'
import { ask, campaign, linesOf, run, serve, temporaryFolder } from '../../tenure.ts'

test('tenure handover moves leadership to a named candidate, or says why it cannot', async () => {
  const directory = temporaryFolder()
  const store = fileStore({ directory })
  const url = pathToFileURL(directory).href
  const electors = ['node-a', 'node-b', 'node-c'].map((identity) => {
    const options = { store, election: 'jobs', identity, present: true, leaseDurationMs: 3_000 }
    return new Elector({ ...options, ...(identity === 'node-b' && { eligible: () => false }) })
  })
  onTestFinished(async () => {
    await Promise.all(electors.map((elector) => elector.stop()))
    await store.close?.()
  })
  for (const elector of electors) {
    elector.start()
    await expect.poll(() => elector.explain().seat, { timeout: 20_000 }).toBeTypeOf('number')
  }
  const absent = await run(['handover', 'jobs', '--to', 'node-x', '--store', url])
  expect(absent).toMatchObject({ code: 1, error: '' })
  expect(absent.out).toContain('"node-x" is not present in "jobs"')
  const eligible = async () => linesOf((await run(['members', 'jobs', '--store', url, '--json'])).out)[1]?.['eligible']
  await expect.poll(eligible, { timeout: 20_000 }).toBe(false)
  const ineligible = await run(['handover', 'jobs', '--to', 'node-b', '--json', '--store', url])
  expect({ code: ineligible.code, lines: linesOf(ineligible.out) }).toEqual({
    code: 1,
    lines: [{ election: 'jobs', to: 'node-b', result: 'not-eligible' }],
  })
  expect(await run(['handover', 'jobs', '--to', 'node-c', '--store', url])).toEqual({
    code: 0,
    out: '"jobs" was handed over: "node-c" leads in term 2.\n',
    error: '',
  })
  expect(electors[2]?.isLeader()).toBe(true)
  const members = linesOf((await run(['members', 'jobs', '--store', url, '--json'])).out)
  expect(members.map((member) => member['node_id'])).toEqual(['node-a', 'node-b', 'node-c'])
})

test('tenure handover requires --to', async () => {
  const answer = await run(['handover', 'jobs', '--store', pathToFileURL(temporaryFolder()).href])
  expect(answer).toMatchObject({ code: 2, out: '' })
  expect(answer.error).toContain('--to is missing')
})

test('tenure handover ends the term of a leader at a service in favor of a member', async () => {
  const { url } = await serve(temporaryFolder())
  await campaign(url, 'jobs', 'node-a', { lease_ttl_ms: 20_000 })
  expect(await run(['handover', 'jobs', '--to', 'node-b', '--store', url])).toMatchObject({
    code: 1,
    out: expect.stringContaining('"node-b" is not present in "jobs"'),
  })
  await ask(`${url}/v1/groups/jobs/heartbeat`, { node_id: 'node-b' })
  const waiting = run(['handover', 'jobs', '--to', 'node-b', '--store', url])
  const elected = await campaign(url, 'jobs', 'node-b', { wait_ms: 60_000 })
  expect(elected.status).toBe(200)
  expect(await waiting).toMatchObject({ code: 0, out: '"jobs" was handed over: "node-b" leads in term 2.\n' })
})
