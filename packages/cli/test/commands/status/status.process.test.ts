import { hostname } from 'node:os'
import { expect, test } from 'vitest'
import { strange } from '../../fake-service.ts'
import { ask, linesOf, run, serve, temporaryFolder } from '../../tenure.ts'

const three = {
  cluster_id: 'c',
  answered_by: 'b',
  storage: { kind: 'etcd', healthy: true },
  active: 'a',
  term: 7,
  replicas: [
    { replica: 'a', role: 'active', address: 'https://10.0.0.1:7071', since_ms: 0, changes_behind: 0, feed_lag_ms: 0 },
    { replica: 'b', role: 'follower', address: 'https://b:7071', since_ms: 0, changes_behind: 3, feed_lag_ms: 1_500 },
    {
      replica: 'c',
      role: 'follower',
      address: 'https://c:7071',
      since_ms: null,
      changes_behind: null,
      feed_lag_ms: null,
    },
  ],
}

test('status shows the one replica of a service on a directory, in words and as JSON', async () => {
  const { url } = await serve(temporaryFolder())
  const { body } = await ask(`${url}/v1/replicas`)
  const { code, out, error } = await run(['status', '--url', url])
  expect({ code, error }).toEqual({ code: 0, error: '' })
  const [head, columns, row, ...more] = out.split('\n')
  expect(head).toBe(
    `${hostname()} is active in term 0. The storage (directory) of cluster ${String(body['cluster_id'])} answers.`,
  )
  expect(columns).toMatch(/^REPLICA +ROLE +SINCE +FEED LAG +ADDRESS$/)
  expect(row?.split(/ +/)).toEqual([hostname(), 'active', expect.stringMatching(/Z$/), '-', '-'])
  expect(more).toEqual([''])
  const json = await run(['status', '--url', url, '--json'])
  expect(linesOf(json.out)).toEqual([body])
})

test('status shows which replicas follow, how far behind they are, and which are not connected', async () => {
  const url = await strange((_, answer) => answer(three))
  const { code, out } = await run(['status', '--url', url])
  expect(code).toBe(0)
  const rows = out
    .split('\n')
    .slice(2, 5)
    .map((row) => row.split(/ {2,}/))
  expect(rows).toEqual([
    ['a', 'active', '1970-01-01T00:00:00.000Z', '-', 'https://10.0.0.1:7071'],
    ['b', 'follower', '1970-01-01T00:00:00.000Z', '1.5s (3)', 'https://b:7071'],
    ['c', 'follower', 'not connected', 'unknown', 'https://c:7071'],
  ])
})

test.for([
  [
    'no replica is active',
    { ...three, active: null, term: null },
    /^No replica is active\. The storage .* answers\.$/m,
  ],
  [
    'the storage does not answer',
    { ...three, storage: { kind: 'etcd', healthy: false } },
    /^a is active .* does not answer/m,
  ],
] as const)('status exits with 1 when %s', async ([, answered, said]) => {
  const url = await strange((_, answer) => answer(answered))
  const { code, out } = await run(['status', '--url', url])
  expect(code).toBe(1)
  expect(out).toMatch(said)
})

test('status fails when the answer is malformed or the service is unavailable', async () => {
  for (const wrong of [{}, { ...three, replicas: 'a' }, { ...three, storage: null }]) {
    const url = await strange((_, answer) => answer(wrong))
    expect(await run(['status', '--url', url])).toMatchObject({
      code: 69,
      error: expect.stringContaining('a malformed answer') as string,
    })
  }
  expect(await run(['status', '--url', 'http://127.0.0.1:9'])).toMatchObject({ code: 69, out: '' })
})
