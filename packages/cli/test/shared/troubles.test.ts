import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Troubles } from '../../src/shared/troubles.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['hrtime'] }))
afterEach(() => void vi.useRealTimers())

test('troubles that come in turns are each told once a minute', () => {
  const troubles = new Troubles()
  const told: string[] = []
  for (let second = 0; second < 58; second += 2) {
    const text = second % 4 === 0 ? 'did not answer "acquire"' : 'did not answer "read"'
    if (troubles.isNew(text, { ofRenewal: false })) told.push(`${second} ${text}`)
    vi.advanceTimersByTime(2_000)
  }
  expect(told).toEqual(['0 did not answer "acquire"', '2 did not answer "read"'])
})

describe('a call that succeeds ends a trouble', () => {
  const failed = (verb: 'read' | 'acquire' | 'renew', isFollowing: boolean) => {
    const troubles = new Troubles()
    troubles.isNew('away', { ofRenewal: verb === 'renew' })
    expect(troubles.endsWith({ verb, result: 'failed' }, () => isFollowing)).toBe(false)
    return (again: 'read' | 'acquire' | 'renew', result: 'ok' | 'refused' = 'ok') =>
      troubles.endsWith({ verb: again, result }, () => isFollowing)
  }

  test('for a standby by a read, while somebody leads', () => {
    const answered = failed('acquire', true)
    expect([answered('read'), answered('read')]).toEqual([true, false])
  })

  test('not by a read, where a write failed and nobody leads: it may be read-only', () => {
    const answered = failed('acquire', false)
    expect([answered('read'), answered('acquire', 'refused'), answered('acquire')]).toEqual([false, false, true])
  })

  test('by a read, where only reads failed', () => {
    expect(failed('read', false)('read')).toBe(true)
  })

  test('of a leader by a renewal', () => {
    const answered = failed('renew', false)
    expect([answered('read'), answered('renew')]).toEqual([false, true])
  })

  test('but not where no call has failed, such as that of a watch that is forbidden', () => {
    const troubles = new Troubles()
    troubles.isNew('may not watch', { ofRenewal: false })
    expect(troubles.endsWith({ verb: 'read', result: 'ok' }, () => true)).toBe(false)
  })
})

test('the same trouble is told once a minute, however often it comes, and again after things went well', () => {
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
