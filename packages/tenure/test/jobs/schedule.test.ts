import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cronTimes, timezoneOf } from '../../src/jobs/cron.ts'
import { Schedule, toleranceMsOf } from '../../src/jobs/schedule.ts'
import { intervalMsOf, intervalTimes, type Interval } from '../../src/jobs/due-times.ts'

const at = (text: string) => Date.parse(text)
const iso = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString())

function cron(pattern: string, more: { timezone?: string; missed?: 'skip' | 'run-once' } = {}): Schedule {
  const { timezone = 'UTC', missed = 'skip' } = more
  return new Schedule(cronTimes('schedule', pattern, timezone), { missed, toleranceMs: 60_000 })
}

describe('the next slot', () => {
  const five = cron('*/5 * * * *')

  test('the next slot is the first one after the last run, and is not due before its time', () => {
    expect(five.next(at('2026-01-01T12:00Z'), at('2026-01-01T12:01Z'))).toEqual({
      slotMs: at('2026-01-01T12:05Z'),
      waitMs: 240_000,
      missedMs: undefined,
    })
  })

  test('a slot is due at its exact millisecond and not before', () => {
    const lastMs = at('2026-01-01T12:00Z')
    expect(five.next(lastMs, at('2026-01-01T12:05Z') - 1)).toMatchObject({ waitMs: 1 })
    expect(five.next(lastMs, at('2026-01-01T12:05Z'))).toMatchObject({ slotMs: at('2026-01-01T12:05Z'), waitMs: 0 })
  })

  test('the next slot is never one that already ran, however far behind this clock is', () => {
    for (const minutes of [-600, -5, -1, 0, 1]) {
      const slot = five.next(at('2026-01-01T12:05Z'), at('2026-01-01T12:05Z') + minutes * 60_000)
      expect(slot).toMatchObject({ slotMs: at('2026-01-01T12:10Z'), waitMs: (5 - minutes) * 60_000 })
    }
  })

  test('a slot that was delayed by a takeover is not missed', () => {
    expect(five.next(at('2026-01-01T12:00Z'), at('2026-01-01T12:05:59Z'))).toMatchObject({
      slotMs: at('2026-01-01T12:05Z'),
      waitMs: 0,
    })
    expect(toleranceMsOf(15_000)).toBe(60_000)
    expect(toleranceMsOf(60_000)).toBe(120_000)
  })

  test('missed slots are skipped, or merged into one run with run-once', () => {
    const args = [at('2026-01-01T09:00Z'), at('2026-01-01T12:02Z')] as const
    expect(five.next(...args)).toEqual({
      slotMs: at('2026-01-01T12:05Z'),
      waitMs: 180_000,
      missedMs: at('2026-01-01T12:00Z'),
    })
    expect(cron('*/5 * * * *', { missed: 'run-once' }).next(...args)).toMatchObject({
      slotMs: at('2026-01-01T12:00Z'),
      waitMs: 0,
    })
  })

  test('slots follow a time zone through daylight saving time', () => {
    const zurich = cron('0 3 * * *', { timezone: 'Europe/Zurich' })
    const slots = [at('2026-03-27T12:00Z')]
    while (slots.length < 5) slots.push(zurich.next(slots.at(-1) ?? 0, slots.at(-1) ?? 0)?.slotMs ?? NaN)
    expect(slots.slice(1).map(iso)).toEqual([
      '2026-03-28T02:00:00.000Z',
      '2026-03-29T01:00:00.000Z',
      '2026-03-30T01:00:00.000Z',
      '2026-03-31T01:00:00.000Z',
    ])
  })

  test.each([
    ['Europe/Zurich', '2026-03-28T12:00Z'],
    ['Europe/Zurich', '2026-10-24T12:00Z'],
    ['America/Havana', '2026-10-31T12:00Z'],
    ['Australia/Lord_Howe', '2026-04-04T00:00Z'],
  ])('slots are due exactly at the announced times when %s changes its clocks (%s)', (timezone, from) => {
    for (const pattern of ['30 2 * * *', '0 0 * * *', '*/30 1-3 * * *', '*/20 * * * *']) {
      const { times } = cron(pattern, { timezone })
      const announced: number[] = []
      const untilMs = at(from) + 30 * 3_600_000
      for (let ms = times.after(at(from)); ms !== undefined && ms <= untilMs; ms = times.after(ms)) announced.push(ms)
      const due = new Set<number>()
      for (let ms = at(from); ms <= untilMs; ms += 300_000) {
        const latestMs = times.latest(ms) ?? 0
        expect(latestMs).toBeLessThanOrEqual(ms)
        if (latestMs > at(from)) due.add(latestMs)
      }
      expect([...due].map(iso)).toEqual(announced.map(iso))
    }
  })

  test.each([
    ['that a daylight saving change skips', '30 2 * * *', '2026-03-28T12:00Z', '2026-03-29T12:00Z'],
    ['that a daylight saving change repeats', '30 2 * * *', '2026-10-24T12:00Z', '2026-10-25T12:00Z'],
  ])('a daily job has one slot on a day with an hour %s', (_, pattern, from, until) => {
    const zurich = cron(pattern, { timezone: 'Europe/Zurich' })
    const slots: number[] = []
    for (let ms = at(from); ;) {
      const next = zurich.times.after(ms)
      if (next === undefined || next > at(until)) break
      slots.push(next)
      ms = next
    }
    expect(slots).toHaveLength(1)
  })

  test('the next slot does not depend on earlier calls, whatever the clock does in between', () => {
    const minutes = fc.integer({ min: 0, max: 500 })
    fc.assert(
      fc.property(fc.array(fc.tuple(minutes, minutes), { minLength: 1, maxLength: 10 }), (asked) => {
        const kept = cron('*/7 * * * *')
        for (const [last, now] of asked) {
          const [lastMs, nowMs] = [at('2026-01-01T00:00Z') + last * 60_000, at('2026-01-01T00:00Z') + now * 60_000]
          expect(kept.next(lastMs, nowMs)).toEqual(cron('*/7 * * * *').next(lastMs, nowMs))
        }
      }),
      { numRuns: 30 },
    )
  })

  test('the next slot is always after the last one, and a slot that is due now is never skipped', () => {
    const ms = fc.integer({ min: 0, max: 4_000_000 })
    fc.assert(
      fc.property(ms, ms, fc.constantFrom('skip' as const, 'run-once' as const), (lastMs, nowMs, missed) => {
        const schedule = new Schedule(intervalTimes(10_000), { missed, toleranceMs: 60_000 })
        const slot = schedule.next(lastMs, nowMs)
        if (!slot) return expect.unreachable('the interval has no next slot')
        expect(slot.slotMs).toBeGreaterThan(lastMs)
        expect(slot.slotMs % 10_000).toBe(0)
        expect(slot.waitMs).toBe(Math.max(0, slot.slotMs - nowMs))
        const dueMs = Math.floor(nowMs / 10_000) * 10_000
        if (dueMs > lastMs) expect(slot.slotMs).toBe(dueMs)
        return undefined
      }),
    )
  })
})

describe('an interval', () => {
  test('an interval counts from the epoch, so that every process computes the same times', () => {
    const times = intervalTimes(intervalMsOf('schedule', { minutes: 5 }))
    expect(iso(times.latest(at('2026-01-01T12:07:31Z')))).toBe('2026-01-01T12:05:00.000Z')
    expect(iso(times.after(at('2026-01-01T12:05:00Z')))).toBe('2026-01-01T12:10:00.000Z')
    expect(times.text).toBe('every 5 minutes')
    expect(intervalTimes(90_000).text).toBe('every 90 seconds')
    expect(intervalTimes(3_600_000).text).toBe('every hour')
  })

  test('an interval may have fractional parts', () => {
    expect(intervalMsOf('schedule', { hours: 1.1 })).toBe(3_960_000)
    expect(intervalMsOf('schedule', { seconds: 1.005 })).toBe(1_005)
    expect(() => intervalMsOf('schedule', { milliseconds: 100.5 })).toThrow(/a whole number of milliseconds/)
  })

  test('the length of an interval is the sum of its parts', () => {
    expect(intervalMsOf('schedule', { days: 1, hours: 1, minutes: 1, seconds: 1, milliseconds: 1 })).toBe(90_061_001)
  })

  test.each([
    ['nothing', {}, /"interval" is 0, but it must be a whole number of milliseconds, at least 100 ms/],
    ['a negative part', { minutes: -1 }, /"interval.minutes" is -1, but it must be a number of at least 0/],
    ['an unknown unit', { weeks: 1 }, /has no option "weeks"/],
    ['a misspelled unit', { minute: 1 }, /Did you mean "minutes"/],
    ['text', { minutes: '5' }, /"interval.minutes" is "5"/],
    ['less than a tenth of a second', { milliseconds: 99 }, /at least 100/],
    ['more than a century', { days: 36_526 }, /at most 36525 days/],
    ['NaN', { days: NaN }, /"interval.days" is NaN/],
  ])('an interval of %s is rejected', (_, interval: object, message) => {
    expect(() => intervalMsOf('interval', interval as Interval)).toThrow(message)
  })
})

describe('a cron expression', () => {
  test.each([
    ['with four fields', '* * * *', /five fields, or six with seconds/],
    ['that is a date', '2026-01-01T00:00:00', /five fields/],
    ['with an invalid minute', '61 * * * *', /"schedule" is "61 \* \* \* \*", but it must be.*minute: 61/],
    ['with a word in it', '* * soon * *', /its field 3 \(soon\) is not understood/],
    ['for a day that never comes', '0 0 31 2 *', /matches some day/],
    ['with a misspelled name', '@hurly', /@hourly.*Did you mean "@hourly"\?/],
  ])('a cron expression %s is rejected', (_, pattern, message) => {
    expect(() => cronTimes('schedule', pattern, 'UTC')).toThrow(message)
    expect(() => cronTimes('schedule', pattern, 'UTC')).toThrow(TypeError)
  })

  test.each(['@hourly', '@DAILY', ' 0 3 * * MON-FRI ', '*/2 * * * * *'])(
    'the cron expression %s is accepted',
    (pattern) => {
      expect(cronTimes('schedule', pattern, 'UTC').after(0)).toBeGreaterThan(0)
    },
  )

  test('an unknown time zone is rejected with a suggestion', () => {
    expect(timezoneOf('timezone', 'europe/zurich')).toBe('Europe/Zurich')
    expect(() => timezoneOf('timezone', 'Europe/Zurick')).toThrow(/must be a time zone.*Did you mean "Europe\/Zurich"/)
    expect(() => timezoneOf('timezone', 5)).toThrow(/"timezone" is 5/)
  })
})
