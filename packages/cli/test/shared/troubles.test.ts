import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Troubles } from '../../src/shared/error-log.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['hrtime'] }))
afterEach(() => void vi.useRealTimers())

test('alternating errors are each reported once a minute', () => {
  const troubles = new Troubles()
  const told: string[] = []
  for (let second = 0; second < 58; second += 2) {
    const text = second % 4 === 0 ? 'did not answer "acquire"' : 'did not answer "read"'
    if (troubles.isNew(text, { ofRenewal: false })) told.push(`${second} ${text}`)
    vi.advanceTimersByTime(2_000)
  }
  expect(told).toEqual(['0 did not answer "acquire"', '2 did not answer "read"'])
})

describe('a successful call ends a problem', () => {
  const failed = (verb: 'read' | 'acquire' | 'renew', isFollowing: boolean) => {
    const troubles = new Troubles()
    troubles.isNew('away', { ofRenewal: verb === 'renew' })
    expect(troubles.endsWith({ verb, result: 'failed' }, () => isFollowing)).toBe(false)
    return (again: 'read' | 'acquire' | 'renew', result: 'ok' | 'refused' = 'ok') =>
      troubles.endsWith({ verb: again, result }, () => isFollowing)
  }

  test('a read ends the problem of a standby while another candidate leads', () => {
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

  test('a read does not end a problem when no call has failed, such as a forbidden watch', () => {
    const troubles = new Troubles()
    troubles.isNew('may not watch', { ofRenewal: false })
    expect(troubles.endsWith({ verb: 'read', result: 'ok' }, () => true)).toBe(false)
  })
})

test('the same error is reported once a minute, and again after a success', () => {
  const troubles = new Troubles()
  const told: number[] = []
  for (let second = 0; second < 150; second += 2) {
    if (troubles.isNew('no rights', { ofRenewal: false })) told.push(second)
    vi.advanceTimersByTime(2_000)
  }
  expect(told).toEqual([0, 60, 120])
  expect(troubles.end({ ofRenewal: false })).toBe(true)
  expect(troubles.isNew('no rights', { ofRenewal: false })).toBe(true)
})
