import type { FastifyRequest } from 'fastify'
import { fakeClock } from '@tenure/testing'
import { describe, expect, test } from 'vitest'
import { limitsFrom, type LimitOptions } from '../../src/http/limit-options.ts'
import { Limits } from '../../src/http/limits.ts'

describe('byte limits', () => {
  const limits = new Limits(limitsFrom({ maxBodyBytes: 400_000, maxAnswerBytes: 400_000 }, true), {
    clock: fakeClock(),
    authenticated: true,
  })
  const of = (subject: string, url = '/v1/renew') =>
    ({ identity: { subject }, routeOptions: { url } }) as unknown as FastifyRequest

  test.each([
    ['request bodies', 'reserveBody'],
    ['responses', 'reserveResponse'],
  ] as const)('Limits allows one subject at most a quarter of all bytes of %s', (_kind, reserve) => {
    const take = (subject: string, bytes: number) => limits[reserve](of(subject), bytes)
    expect(take('a', 8_192)).toBeUndefined()
    const leave = take('a', 100_000)
    expect(() => take('a', 9_000)).toThrow(/Too many/)
    for (const other of ['b', 'c', 'd']) take(other, 100_000)
    expect(() => take('e', 9_000)).toThrow(/Too many/)
    leave?.()
    expect(take('a', 9_000)).toBeDefined()
  })

  test('Limits refuses a body once the bodies of its subject exceed the burst in bytes', () => {
    // The burst is twice 50,000 renewals, each worth 128 bytes.
    for (let count = 0; count < 3; count++) limits.body(of('payer'), 4_000_000)
    expect(() => limits.body(of('payer'), 4_000_000)).toThrow(/Too many/)
    // The burst is twice 1,000 requests, each worth 4 KB.
    for (let count = 0; count < 133; count++) limits.body(of('payer', '/v1/groups'), 65_536)
    expect(() => limits.body(of('payer', '/v1/groups'), 65_536)).toThrow(/Too many/)
  })
})

describe('delivery limits', () => {
  const clock = fakeClock()
  const limits = new Limits(limitsFrom({ deliveriesPerSecond: 10, requestsPerSecond: 50 }, true), {
    clock,
    authenticated: true,
  })
  const of = (subject: string) =>
    ({ identity: { subject }, routeOptions: { url: '/v1/x' } }) as unknown as FastifyRequest

  test('the delivery budget refills with time', async () => {
    expect(limits.deliver('a', 20)).toBe(true)
    expect(limits.deliver('a', 1)).toBe(false)
    expect(limits.deliver('b', 1)).toBe(true)
    expect(limits.deliverLate('a', 1)).toBe(100)
    await clock.advance(100)
    expect(limits.deliverLate('a', 1)).toBe(0)
  })

  test('the deliveries of a change cost its leader at most 20 requests, however many watchers there are', () => {
    for (let change = 0; change < 4; change++) limits.chargeChange(of('leader'), 1_000_000)
    // The burst is 100 requests, and each change used 20 of them.
    for (let count = 0; count < 20; count++) limits.request(of('leader'))
    expect(() => limits.request(of('leader'))).toThrow(/Too many/)
  })
})

test('the error for an invalid limit names the limit, and omitted limits have defaults', () => {
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
