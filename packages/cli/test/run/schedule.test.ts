import { describe, expect, test } from 'vitest'
import { Schedule } from '../../src/run/schedule.ts'

const at = (text: string) => Date.parse(text)
const schedule = (pattern: string, more: Partial<ConstructorParameters<typeof Schedule>[0]> = {}) =>
  new Schedule({ pattern, timezone: 'UTC', missed: 'skip', toleranceMs: 60_000, ...more })

describe('the next slot', () => {
  const five = schedule('*/5 * * * *')

  test('is the one after the last, and waits for its time', () => {
    expect(five.next(at('2026-01-01T12:00Z'), at('2026-01-01T12:01Z'))).toEqual({
      slotMs: at('2026-01-01T12:05Z'),
      waitMs: 240_000,
      missedMs: undefined,
    })
  })

  test('is due at its very millisecond, and not before', () => {
    const lastMs = at('2026-01-01T12:00Z')
    expect(five.next(lastMs, at('2026-01-01T12:05Z') - 1)).toMatchObject({ waitMs: 1 })
    expect(five.next(lastMs, at('2026-01-01T12:05Z'))).toMatchObject({ slotMs: at('2026-01-01T12:05Z'), waitMs: 0 })
  })

  test('is never one that was run, however far behind this clock is', () => {
    for (const minutes of [-600, -5, -1, 0, 1]) {
      const slot = five.next(at('2026-01-01T12:05Z'), at('2026-01-01T12:05Z') + minutes * 60_000)
      expect(slot).toMatchObject({ slotMs: at('2026-01-01T12:10Z'), waitMs: (5 - minutes) * 60_000 })
    }
  })

  test('was not missed if a take-over came in between', () => {
    expect(five.next(at('2026-01-01T12:00Z'), at('2026-01-01T12:05:59Z'))).toMatchObject({
      slotMs: at('2026-01-01T12:05Z'),
      waitMs: 0,
    })
  })

  test('leaves out what was missed, or makes one run of all of it', () => {
    const args = [at('2026-01-01T09:00Z'), at('2026-01-01T12:02Z')] as const
    expect(five.next(...args)).toEqual({
      slotMs: at('2026-01-01T12:05Z'),
      waitMs: 180_000,
      missedMs: at('2026-01-01T12:00Z'),
    })
    expect(schedule('*/5 * * * *', { missed: 'run-once' }).next(...args)).toMatchObject({
      slotMs: at('2026-01-01T12:00Z'),
      waitMs: 0,
    })
  })

  test('follows a time zone over its summer time', () => {
    const zurich = schedule('0 3 * * *', { timezone: 'Europe/Zurich' })
    const slots = [at('2026-03-27T12:00Z')]
    while (slots.length < 5) slots.push(zurich.next(slots.at(-1) ?? 0, slots.at(-1) ?? 0)?.slotMs ?? NaN)
    expect(slots.slice(1).map((slot) => new Date(slot).toISOString())).toEqual([
      '2026-03-28T02:00:00.000Z',
      '2026-03-29T01:00:00.000Z',
      '2026-03-30T01:00:00.000Z',
      '2026-03-31T01:00:00.000Z',
    ])
  })
})
