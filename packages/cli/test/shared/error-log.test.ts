import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { ErrorLog } from '../../src/shared/error-log.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['hrtime'] }))
afterEach(() => void vi.useRealTimers())

test('alternating errors are each reported once a minute', () => {
  const troubles = new ErrorLog()
  const told: string[] = []
  for (let second = 0; second < 58; second += 2) {
    const text = second % 4 === 0 ? 'did not answer "acquire"' : 'did not answer "read"'
    if (troubles.shouldReport(text, { ofRenewal: false })) told.push(`${second} ${text}`)
    vi.advanceTimersByTime(2_000)
  }
  expect(told).toEqual(['0 did not answer "acquire"', '2 did not answer "read"'])
})

describe('a successful call ends a problem', () => {
  const failed = (verb: 'read' | 'acquire' | 'renew', isFollowing: boolean) => {
    const troubles = new ErrorLog()
    troubles.shouldReport('away', { ofRenewal: verb === 'renew' })
    expect(troubles.recordCall({ verb, result: 'failed' }, () => isFollowing)).toBe(false)
    return (again: 'read' | 'acquire' | 'renew', result: 'ok' | 'refused' = 'ok') =>
      troubles.recordCall({ verb: again, result }, () => isFollowing)
  }

  test('a successful read ends the problem of a standby while another candidate leads', () => {
    const answered = failed('acquire', true)
    expect([answered('read'), answered('read')]).toEqual([true, false])
  })

  test('a read does not end a failed write while nobody leads, because the store may be read-only', () => {
    const answered = failed('acquire', false)
    expect([answered('read'), answered('acquire', 'refused'), answered('acquire')]).toEqual([false, false, true])
  })

  test('a read ends the problem when only reads have failed', () => {
    expect(failed('read', false)('read')).toBe(true)
  })

  test('a renewal ends the problem of a leader', () => {
    const answered = failed('renew', false)
    expect([answered('read'), answered('renew')]).toEqual([false, true])
  })

  test('a successful read does not end a problem that is not a failed call, such as a forbidden watch', () => {
    const troubles = new ErrorLog()
    troubles.shouldReport('may not watch', { ofRenewal: false })
    expect(troubles.recordCall({ verb: 'read', result: 'ok' }, () => true)).toBe(false)
  })
})

test('the same error is reported once a minute, and again after a success', () => {
  const troubles = new ErrorLog()
  const told: number[] = []
  for (let second = 0; second < 150; second += 2) {
    if (troubles.shouldReport('no rights', { ofRenewal: false })) told.push(second)
    vi.advanceTimersByTime(2_000)
  }
  expect(told).toEqual([0, 60, 120])
  expect(troubles.end({ ofRenewal: false })).toBe(true)
  expect(troubles.shouldReport('no rights', { ofRenewal: false })).toBe(true)
})
