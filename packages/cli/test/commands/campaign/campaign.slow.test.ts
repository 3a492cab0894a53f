import { hostname } from 'node:os'
import { describe, expect, test } from 'vitest'
import { ask, campaign, linesOf, run, serve, temporaryFolder, tenure } from '../../tenure.ts'

describe('the commands for a service', () => {
  test('campaign, resign, members and groups print sentences and tables', async () => {
    const { url } = await serve(temporaryFolder())
    const say = async (...args: string[]) => {
      const { code, out, error } = await run([...args, '--url', url])
      expect(error).toBe('')
      return `${code} ${out}`
    }
    expect(await say('groups')).toBe('0 There are no groups.\n')
    expect(await run(['members', 'jobs', '--url', url])).toMatchObject({
      code: 1,
      out: '',
      error: expect.stringMatching(/Group "jobs" does not exist\. Correct the name, /) as string,
    })
    expect(await say('campaign', 'jobs', '--identity', 'a', '--ttl', '1m', '--metadata', '{"zone":"x"}')).toMatch(
      /^0 a leads jobs in term 1 for \d+\.\ds\.\n$/,
    )
    expect(await say('campaign', 'jobs', '--identity', 'b')).toMatch(
      /^1 b does not lead jobs: a leads it in term 1 for another \d+\.\ds unless it renews\.\n$/,
    )
    expect(await say('members', 'jobs')).toMatch(
      /^0 NODE +ROLE +LIVE +LAST SEEN +METADATA\na +leader +yes +\S+Z +\{"zone":"x"\}\nb +candidate +yes +\S+Z\n$/,
    )
    expect(await say('groups')).toMatch(/^0 GROUP +LEADER .*\njobs +a +1 +\d+\.\ds +no\n$/)
    expect(await say('resign', 'jobs', '--identity', 'b')).toMatch(/^1 b does not lead jobs: a leads it in term 1 /)
    expect(await say('resign', 'jobs', '--identity', 'a')).toBe('0 a no longer leads jobs: term 1 has ended.\n')
    expect(await say('resign', 'jobs', '--identity', 'b')).toBe('1 b does not lead jobs: nobody leads it.\n')
    expect(await say('groups')).toMatch(/\njobs +- +1 +- +no\n$/)
  })

  test('campaign reports that the node already leads from an earlier campaign', async () => {
    const { url } = await serve(temporaryFolder())
    const env = { TENURE_URL: url, TENURE_IDENTITY: 'n1' }
    await campaign(url, 'jobs', 'n1')
    const again = await run(['campaign', 'jobs'], { env })
    expect(again).toMatchObject({ code: 1, error: '' })
    expect(again.out).toMatch(
      /^n1 already leads jobs in term 1 from an earlier campaign, for another \d+\.\ds\. Resign first, or wait until that lease expires\.\n$/,
    )
    const other = await run(['resign', 'jobs', '--term', '7'], { env })
    expect(other).toMatchObject({ code: 1, out: 'n1 leads jobs in term 1, not in term 7.\n' })
  })

  test('resign succeeds again after the lease was released, and each help explains its exit codes', async () => {
    const { url } = await serve(temporaryFolder())
    await campaign(url, 'jobs', 'a')
    const resign = ['resign', 'jobs', '--url', url, '--identity', 'a']
    expect(await run(resign)).toMatchObject({ code: 0 })
    expect(await run(resign)).toMatchObject({ code: 0 })
    const codes = async (name: string) => /^Exit codes: .*$/m.exec((await run([name, '--help'])).out)?.[0]
    expect(await codes('resign')).toContain('0 if the lease was released, now or earlier, 1 if this node does not lead')
    expect(await codes('members')).toContain('1 if there are none or the election does not exist')
  })

  test('every command accepts --url and --store for the same setting, as flags and as variables', async () => {
    const { url } = await serve(temporaryFolder())
    await campaign(url, 'jobs', 'a', { lease_ttl_ms: 600_000 })
    const questions = [['members', 'jobs'], ['groups'], ['leader', 'jobs'], ['watch', 'jobs', '--changes', '1']]
    for (const question of questions) {
      for (const flag of ['--url', '--store']) {
        expect(await run([...question, flag, url]), `${question.join(' ')} ${flag}`).toMatchObject({
          code: 0,
          error: '',
        })
      }
      for (const env of [{ TENURE_URL: url }, { TENURE_STORE: url, TENURE_URL: '' }]) {
        expect(await run(question, { env }), question.join(' ')).toMatchObject({ code: 0, error: '' })
      }
      // A flag overrides a variable, no matter which of the two names each of them has.
      for (const [flag, variable] of [
        ['--url', 'TENURE_STORE'],
        ['--store', 'TENURE_URL'],
      ] as const) {
        expect(await run([...question, flag, url], { env: { [variable]: 'http://127.0.0.1:9' } })).toMatchObject({
          code: 0,
        })
      }
    }
    const both = await run(['leader', 'jobs', '--url', url, '--store', 'memory:'])
    expect(both).toMatchObject({
      code: 2,
      error: 'tenure: --store and --url are two names for the same setting. Use only one of them.\n',
    })
    // When both variables are set, each command uses its own.
    const env = { TENURE_URL: url, TENURE_STORE: 'memory:' }
    expect(await run(['campaign', 'jobs', '--identity', 'a'], { env })).toMatchObject({ code: 1, error: '' })
    expect(await run(['leader', 'jobs'], { env })).toMatchObject({ code: 1, out: 'Nobody leads "jobs".\n' })
    const file = await run(['campaign', 'jobs', '--store', 'file:///leases'])
    expect(file).toMatchObject({
      code: 2,
      error: expect.stringMatching(/must be the address of an election/) as string,
    })
  })

  test.for([
    ['127.0.0.1:7070', 'http://127.0.0.1:7070'],
    ['localhost:7070', 'http://localhost:7070'],
    ['elections.example.com', 'https://elections.example.com'],
  ])('the error for --url %s, which has no scheme, suggests %s', async ([url = '', meant = '']) => {
    const { code, error } = await run(['campaign', 'jobs', '--url', url])
    expect(code).toBe(2)
    expect(error).toContain(`Did you mean "${meant}"?`)
  })

  test('groups mentions that a token may hide some groups', async () => {
    const { url } = await serve(temporaryFolder())
    const { out } = await run(['groups', '--url', url], { env: { TENURE_TOKEN: 'a.b.c' } })
    expect(out).toBe('There are no groups that you may see.\n')
  })

  test('with TENURE_JSON the commands print the answers from the HTTP API unchanged, as lines of JSON', async () => {
    const { url } = await serve(temporaryFolder())
    const env = { TENURE_URL: url, TENURE_JSON: 'true' }
    const say = async (...args: string[]) => linesOf((await run(args, { env })).out)
    const [won] = await say('campaign', 'jobs', '--ttl', '30s')
    const byService = (await ask(`${url}/v1/groups/jobs/leader`)).body
    expect(won).toMatchObject({ is_leader: true, leader: { node_id: hostname(), term: 1, lease_ttl_ms: 30_000 } })
    expect(Object.keys(won?.['leader'] as object)).toEqual(Object.keys(byService['leader'] as object))
    const listed = (await ask(`${url}/v1/groups/jobs/members`)).body
    expect(await say('members', 'jobs')).toEqual(listed['members'])
    expect(await say('groups')).toMatchObject([{ group_id: 'jobs', leader: { node_id: hostname() } }])
    expect(await say('resign', 'jobs', '--term', '7')).toMatchObject([{ ok: false, error: 'NOT_LEADER' }])
    expect(await say('resign', 'jobs')).toMatchObject([{ ok: true, leader: { term: 1 } }])
  })

  test('resign ends the current term and ignores TENURE_TERM', async () => {
    const { url } = await serve(temporaryFolder())
    await campaign(url, 'jobs', 'a')
    const env = { TENURE_URL: url, TENURE_IDENTITY: 'a', TENURE_TERM: '99' }
    expect(await run(['resign', 'jobs'], { env })).toMatchObject({
      code: 0,
      out: 'a no longer leads jobs: term 1 has ended.\n',
    })
    const beyond = await run(['resign', 'jobs', '--term', '4294967296'], { env })
    expect(beyond).toMatchObject({ code: 1, out: 'a does not lead jobs: nobody leads it.\n' })
  })

  test('campaign --wait waits in the queue and prints the current version of the lease that it wins', async () => {
    const { url } = await serve(temporaryFolder())
    await campaign(url, 'jobs', 'a')
    const waiting = tenure(['campaign', 'jobs', '--url', url, '--identity', 'b', '--wait', '1m', '--json'])
    const inLine = async () => (await (await fetch(`${url}/metrics`)).text()).includes('tenure_waiting_campaigns 1')
    await expect.poll(inLine, { timeout: 20_000 }).toBe(true)
    expect(waiting.output.out).toBe('')
    await ask(`${url}/v1/groups/jobs/resign`, { node_id: 'a', term: 1 })
    expect(await waiting.ended).toBe(0)
    const [answer = {}] = linesOf(waiting.output.out)
    expect(answer).toMatchObject({ is_leader: true, leader: { node_id: 'b', term: 2 } })
    expect((await ask(`${url}/v1/groups/jobs/leader`)).body).toMatchObject({
      leader: { version: (answer['leader'] as { version: string }).version },
    })
    const late = await run(['campaign', 'jobs', '--url', url, '--identity', 'c', '--wait', '1ms'])
    expect(late).toMatchObject({ code: 1, out: expect.stringContaining('c does not lead jobs: b leads it') as string })
  })

  test('groups prints all pages of a listing', async () => {
    const { url } = await serve(temporaryFolder())
    const ids = Array.from({ length: 1_005 }, (_, index) => `g${String(index).padStart(4, '0')}`)
    for (let from = 0; from < ids.length; from += 50) {
      await Promise.all(ids.slice(from, from + 50).map((group_id) => ask(`${url}/v1/groups`, { group_id })))
    }
    const { out } = await run(['groups', '--url', url, '--json'])
    expect(linesOf(out).map(({ group_id }) => group_id)).toEqual(ids)
  })
})
