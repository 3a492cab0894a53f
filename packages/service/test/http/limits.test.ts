import type { FastifyRequest } from 'fastify'
import { fakeClock } from 'tenure/testing'
import { describe, expect, test } from 'vitest'
import { limitsFrom, type LimitOptions } from '../../src/http/limit-options.ts'
import { Limits } from '../../src/http/limits.ts'

describe('bytes', () => {
  const limits = new Limits(limitsFrom({ maxBodyBytes: 400_000, maxAnswerBytes: 400_000 }, true), {
    clock: fakeClock(),
    authenticated: true,
  })
  const of = (subject: string, url = '/v1/renew') =>
    ({ identity: { subject }, routeOptions: { url } }) as unknown as FastifyRequest

  test.each(['arriving', 'answering'] as const)('of one subject that are %s are a quarter of all', (kind) => {
    const take = (subject: string, bytes: number) => limits[kind](of(subject), bytes)
    expect(take('a', 8_192)).toBeUndefined()
    const leave = take('a', 100_000)
    expect(() => take('a', 9_000)).toThrow(/Too many/)
    for (const other of ['b', 'c', 'd']) take(other, 100_000)
    expect(() => take('e', 9_000)).toThrow(/Too many/)
    leave?.()
    expect(take('a', 9_000)).toBeDefined()
  })

  test('of a body are paid for before it is parsed', () => {
    // Twice 50,000 renewals at once, each good for 128 bytes.
    for (let count = 0; count < 3; count++) limits.body(of('payer'), 4_000_000)
    expect(() => limits.body(of('payer'), 4_000_000)).toThrow(/Too many/)
    // Twice 1,000 requests at once, each good for 4 KB.
    for (let count = 0; count < 133; count++) limits.body(of('payer', '/v1/groups'), 65_536)
    expect(() => limits.body(of('payer', '/v1/groups'), 65_536)).toThrow(/Too many/)
  })
})

describe('deliveries', () => {
  const clock = fakeClock()
  const limits = new Limits(limitsFrom({ deliveriesPerSecond: 10, requestsPerSecond: 50 }, true), {
    clock,
    authenticated: true,
  })
  const of = (subject: string) =>
    ({ identity: { subject }, routeOptions: { url: '/v1/x' } }) as unknown as FastifyRequest

  test('have a budget that comes back with time', async () => {
    expect(limits.deliver('a', 20)).toBe(true)
    expect(limits.deliver('a', 1)).toBe(false)
    expect(limits.deliver('b', 1)).toBe(true)
    expect(limits.deliverLate('a', 1)).toBe(100)
    await clock.advance(100)
    expect(limits.deliverLate('a', 1)).toBe(0)
  })

  test('of others cost a leader little, however many watch it', () => {
    for (let change = 0; change < 4; change++) limits.causes(of('leader'), 1_000_000)
    // 100 at once, of which each change took 20.
    for (let count = 0; count < 20; count++) limits.request(of('leader'))
    expect(() => limits.request(of('leader'))).toThrow(/Too many/)
  })
})

test('limits that make no sense are refused with their name', () => {
  expect(limitsFrom(undefined, true)).toMatchObject({ requestsPerSecond: 1_000, maxConnections: 30_000 })
  expect(limitsFrom({}, false)).toMatchObject({ requestsPerSecond: 0, maxConnections: 30_000 })
  expect(limitsFrom({ requestsPerSecond: 5 }, false)).toMatchObject({ requestsPerSecond: 5 })
  for (const bad of [-1, 0.5, NaN, Infinity, 2 ** 31, '5' as unknown as number]) {
    expect(() => limitsFrom({ requestsPerSecond: bad }, true)).toThrow(/limits\.requestsPerSecond/)
  }
  expect(() => limitsFrom({ maxConnections: 0 }, true)).toThrow(/limits\.maxConnections/)
  expect(() => limitsFrom({ headersTimeoutMs: 40_000 }, true)).toThrow(/limits\.headersTimeoutMs/)
  expect(() => limitsFrom({ toString: 1 } as unknown as LimitOptions, true)).toThrow(/limits has no option "toString"/)
})
