import { describe, expect, test } from 'vitest'
import { TenureError } from '../../../src/common/errors.ts'
import type { LeaseStore } from '../../../src/engine/lease-store.ts'
import { claim, cluster, fakeService, grant, held, json, leader, storeOf, type Answer } from './fake-service.ts'

const call = { signal: new AbortController().signal, timeoutMs: 5_000 }

const verbs: Record<string, (store: LeaseStore) => Promise<unknown>> = {
  read: (store) => store.read('report', call),
  acquire: (store) => store.acquire(claim, call),
  renew: (store) => store.renew(held, call),
  release: (store) => store.release(held, call),
}

async function failure(promise: Promise<unknown>): Promise<TenureError> {
  const error = await promise.then(
    (value) => expect.unreachable(`it returned ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(TenureError)
  return error as TenureError
}

const record = {
  election: 'report',
  holder: 'ada',
  attempt: 'a.1',
  term: 7,
  leaseDurationMs: 15_000,
  acquiredAt: 1_799_999_980_000,
  renewedAt: 1_799_999_985_000,
  metadata: {},
  checkpoint: '',
  version: 'v7',
}

test('the store sends its claims to the service and returns the granted record', async () => {
  const service = await fakeService(grant)
  const store = storeOf({ url: `${service.url}/below/` })
  const outcome = { ok: true, record: { ...record, released: false }, validForMs: 15_000 }
  expect(await store.acquire({ ...claim, afterTerm: 6, metadata: { zone: 'a' } }, call)).toEqual(outcome)
  expect(await store.renew({ ...held, leaseDurationMs: 9_000.5, checkpoint: 'on' }, call)).toEqual({
    ...outcome,
    validForMs: 9_000.5,
  })
  expect(await store.release(held, call)).toEqual({ ...outcome, record: { ...record, released: true } })
  expect(await store.read('report', call)).toEqual({ ...record, released: false })
  const named = { node_id: 'ada', attempt: 'a.1' }
  expect(service.asked.map(({ line, body }) => ({ line, body }))).toEqual([
    {
      line: 'POST /below/v1/groups/report/campaign',
      body: { ...named, lease_ttl_ms: 15_000, after_term: 6, metadata: { zone: 'a' } },
    },
    // Durations are rounded up: the service must not count a shorter lease than the caller.
    {
      line: 'POST /below/v1/groups/report/renew',
      body: { ...named, term: 7, version: 'v7', extend_by_ms: 9_001, checkpoint: 'on' },
    },
    { line: 'POST /below/v1/groups/report/resign', body: { ...named, term: 7, version: 'v7' } },
    { line: 'GET /below/v1/groups/report/leader', body: {} },
  ])
})

test('a grant that is longer than requested is valid only as long as requested', async () => {
  const service = await fakeService(
    json(200, { is_leader: true, leader: { ...leader, lease_ttl_ms: 60_000 }, highest_term: 7 }),
  )
  expect(await storeOf({ url: service.url }).acquire(claim, call)).toMatchObject({ ok: true, validForMs: 15_000 })
})

test('a grant that is shorter than requested is valid only as long as granted', async () => {
  const service = await fakeService(
    json(200, { is_leader: true, leader: { ...leader, lease_ttl_ms: 4_000 }, highest_term: 7 }),
  )
  expect(await storeOf({ url: service.url }).acquire(claim, call)).toMatchObject({ ok: true, validForMs: 4_000 })
})

describe('refusals of the service store', () => {
  const other = { ...leader, node_id: 'bob', attempt: 'b.1', term: 8 }
  const refused = { ok: false, error: 'NOT_LEADER', message: 'no' }

  test('a refused acquire returns the leader, the highest term, and at most the time left', async () => {
    const service = await fakeService(
      json(200, { is_leader: false, leader: other, highest_term: 9, retry_after_ms: 14_001 }),
    )
    expect(await storeOf({ url: service.url }).acquire(claim, call)).toEqual({
      ok: false,
      record: { ...record, holder: 'bob', attempt: 'b.1', term: 8, released: false },
      highestTerm: 9,
      retryAfterMs: 14_000,
    })
  })

  test.each(['renew', 'release'] as const)(
    "a refused %s returns the last leader's record as released",
    async (verb) => {
      const service = await fakeService(
        json(409, { ...refused, current_leader: null, previous_leader: other, highest_term: 8 }),
      )
      expect(await storeOf({ url: service.url })[verb](held, call)).toEqual({
        ok: false,
        record: { ...record, holder: 'bob', attempt: 'b.1', term: 8, released: true },
        highestTerm: 8,
      })
    },
  )

  test('after a group was deleted, a refused acquire returns the time until a lease may be granted', async () => {
    const service = await fakeService(
      json(200, { is_leader: false, leader: null, highest_term: 8, retry_after_ms: 900 }),
    )
    expect(await storeOf({ url: service.url }).acquire(claim, call)).toEqual({
      ok: false,
      highestTerm: 8,
      retryAfterMs: 899,
    })
  })

  test('a refused acquire returns the time until a lease may be granted that was ended by force', async () => {
    const service = await fakeService(
      json(200, { is_leader: false, leader: null, previous_leader: other, highest_term: 8, retry_after_ms: 900 }),
    )
    expect(await storeOf({ url: service.url }).acquire(claim, call)).toMatchObject({
      ok: false,
      record: { term: 8, released: true },
      retryAfterMs: 899,
    })
  })

  test('a refused acquire returns the record of a free lease as released, even if the answer has a retry time', async () => {
    const service = await fakeService(
      json(200, { is_leader: false, leader: null, previous_leader: other, highest_term: 8, retry_after_ms: 100 }),
    )
    expect(await storeOf({ url: service.url }).acquire(claim, call)).toEqual({
      ok: false,
      record: { ...record, holder: 'bob', attempt: 'b.1', term: 8, released: true },
      highestTerm: 8,
    })
  })

  test('a refused renew returns no record if there was never a leader', async () => {
    const service = await fakeService(json(409, { ...refused, current_leader: null, highest_term: 0 }))
    expect(await storeOf({ url: service.url }).renew(held, call)).toEqual({ ok: false, highestTerm: 0 })
  })
})

const nonsense: Record<string, Answer> = {
  'no body': json(200, ''),
  'a body that was cut off': json(200, JSON.stringify({ is_leader: true, ok: true, leader }).slice(0, -9)),
  'a list': json(200, [{ is_leader: true, ok: true, leader, highest_term: 7 }]),
  null: json(200, null),
  'an empty object': json(200, {}),
  'a page of HTML': (response) => {
    response.writeHead(200, { 'content-type': 'text/html', ...cluster })
    response.end(JSON.stringify({ is_leader: true, ok: true, leader, highest_term: 7 }))
  },
  'a connection that breaks in the middle': (response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '9999', ...cluster })
    response.write('{"is_leader":true', () => response.destroy())
  },
  'a connection that breaks at once': (response) => response.destroy(),
  'another status': json(201, { is_leader: true, ok: true, leader, highest_term: 7 }),
  'no cluster id': json(200, { is_leader: true, ok: true, leader, highest_term: 7 }, {}),
  'no leader': json(200, { is_leader: true, ok: true, highest_term: 7 }),
  'a leader that is a string': json(200, { is_leader: true, ok: true, leader: 'ada', highest_term: 7 }),
  ...Object.fromEntries(
    Object.entries({
      term: [0, -1, 1.5, '7', 2 ** 53, null],
      lease_ttl_ms: [0, -1, 2 ** 31, '15000', null],
      version: [7, null],
      attempt: [7, null],
      node_id: [7, null],
      checkpoint: [null],
      metadata: [null, 'text', []],
      acquired_at_ms: ['yesterday'],
    }).flatMap(([field, values]) =>
      values.map((value): [string, Answer] => [
        `a leader whose ${field} is ${JSON.stringify(value)}`,
        json(200, { is_leader: true, ok: true, leader: { ...leader, [field]: value }, highest_term: 7 }),
      ]),
    ),
  ),
}

describe.each(Object.keys(verbs))('malformed responses to %s', (verb) => {
  test.each(Object.keys(nonsense))('the store rejects a response with %s', async (what) => {
    const service = await fakeService(nonsense[what] ?? grant)
    const error = await failure(verbs[verb]?.(storeOf({ url: service.url })) ?? Promise.resolve())
    expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: true })
    expect(error.message).toContain(service.url)
  })
})

test.each([
  ['attempt', 'b.1'],
  ['node_id', 'bob'],
])('the store rejects a grant to another %s', async (field, value) => {
  const other = { ...leader, [field]: value }
  const service = await fakeService((response, { line }) =>
    json(
      200,
      line.endsWith('campaign') ? { is_leader: true, leader: other, highest_term: 7 } : { ok: true, leader: other },
    )(response),
  )
  const store = storeOf({ url: service.url })
  for (const verb of ['acquire', 'renew', 'release']) {
    expect((await failure(verbs[verb]?.(store) ?? Promise.resolve())).code).toBe('BACKEND_UNAVAILABLE')
  }
})

test('renew rejects a response with another term', async () => {
  const service = await fakeService(json(200, { ok: true, leader: { ...leader, term: 8 } }))
  expect((await failure(storeOf({ url: service.url }).renew(held, call))).code).toBe('BACKEND_UNAVAILABLE')
})

test('acquire rejects a response without "is_leader"', async () => {
  const service = await fakeService(json(200, { leader: null, highest_term: 0 }))
  const error = await failure(storeOf({ url: service.url }).acquire(claim, call))
  expect(error.message).toContain('"is_leader" is not a boolean')
})

describe('errors from the service', () => {
  const said = (error: string, more = {}) => ({ ok: false, error, message: 'So it is.', ...more })
  test.each<[string, number, unknown, Partial<TenureError>]>([
    ['for a missing identity', 401, said('UNAUTHORIZED'), { code: 'UNAUTHORIZED', retryable: false }],
    ['for a missing permission', 403, said('UNAUTHORIZED'), { code: 'UNAUTHORIZED', retryable: false }],
    ['for a lease that is too short', 400, said('INVALID_TTL'), { code: 'INVALID_TTL', retryable: false }],
    ['for an invalid name', 400, said('INVALID_REQUEST'), { code: 'INVALID_REQUEST', retryable: false }],
    ['for an unknown group', 404, said('NOT_FOUND'), { code: 'NOT_FOUND', retryable: false }],
    ['for a request that is too large', 413, said('TOO_LARGE'), { code: 'TOO_LARGE', retryable: false }],
    [
      'for a rate limit',
      429,
      said('RATE_LIMITED', { retry_after_ms: 90_000 }),
      { code: 'RATE_LIMITED', retryable: true },
    ],
    ['for a failing disk', 503, said('BACKEND_UNAVAILABLE'), { code: 'BACKEND_UNAVAILABLE', retryable: true }],
    ['with an unknown code', 409, said('ON_STRIKE'), { code: 'BACKEND_UNAVAILABLE', retryable: false }],
    ['that is not an object', 500, '"broken"', { code: 'BACKEND_UNAVAILABLE', retryable: true }],
    ['from another kind of server', 404, '<html>', { code: 'BACKEND_UNAVAILABLE', retryable: false }],
    ['from a login page', 302, '', { code: 'BACKEND_UNAVAILABLE', retryable: false }],
  ])('an error %s is reported with its code', async (_what, status, body, expected) => {
    const service = await fakeService(json(status, body))
    const store = storeOf({ url: service.url, token: 'the-secret-token' })
    for (const verb of Object.values(verbs)) {
      const error = await failure(verb(store))
      expect(error).toMatchObject(expected)
      expect(error.message).toContain(service.url)
      if (typeof body === 'object') expect(error.message).toContain('So it is.')
      expect(JSON.stringify(error) + error.message + String(error.stack)).not.toContain('the-secret-token')
    }
  })

  test('an error is reported immediately, however long the service asks to wait', async () => {
    const service = await fakeService(json(429, said('RATE_LIMITED'), { ...cluster, 'retry-after': '3600' }))
    const startedMs = performance.now()
    const error = await failure(storeOf({ url: service.url }).renew(held, call))
    expect(error.message).toContain('Retry after 3600000 ms.')
    expect(performance.now() - startedMs).toBeLessThan(2_000)
    expect(service.asked).toHaveLength(1)
  })

  test('an error message from the service cannot forge a log line', async () => {
    const service = await fakeService(
      json(503, { ok: false, error: 'X\n', message: `a\r\n\u001b[31mb${'c'.repeat(999)}` }),
    )
    const { message } = await failure(storeOf({ url: service.url }).read('report', call))
    expect(message).toMatch(/^[\x20-\x7e]+$/)
    expect(message.length).toBeLessThan(500)
  })
})

test('acquire sends nothing after the last term', async () => {
  const service = await fakeService(grant)
  const last = { ...claim, afterTerm: Number.MAX_SAFE_INTEGER }
  expect(await failure(storeOf({ url: service.url }).acquire(last, call))).toMatchObject({ code: 'TERM_EXHAUSTED' })
  expect(service.asked).toEqual([])
})
