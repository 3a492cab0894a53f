import { describe, expect, test } from 'vitest'
import { call, leading, lease, stopAndCheck } from './elector-fixture.ts'

describe('renewal', () => {
  test('one failed renewal does not end leadership', async () => {
    const { elector, clock, link, events } = await leading()
    link.fate('renew', 'fail')
    await clock.advance(5_000)
    link.fate('renew', 'pass')
    await clock.advance(lease)
    expect(events.filter(({ type }) => type === 'renew-failed')).toHaveLength(1)
    expect(elector.isLeader()).toBe(true)
    expect(elector.leader()?.term).toBe(1)
    await stopAndCheck(elector, clock)
  })

  test('leadership ends at the deadline, and the signal aborts on time even when the store hangs (B1, D13)', async () => {
    const { elector, clock, link, leadership } = await leading()
    link.fate('all', 'lose-request')
    await clock.advance(9_999)
    expect(elector.isLeader()).toBe(true)
    expect(leadership.signal.aborted).toBe(false)
    await clock.advance(1)
    expect(elector.isLeader()).toBe(false)
    expect(leadership.signal.aborted).toBe(true)
    expect(leadership.signal.reason).toMatchObject({
      code: 'LEADERSHIP_LOST',
      reason: 'expired',
      term: 1,
      election: 'e',
    })
    await stopAndCheck(elector, clock)
  })

  test('a leader that receives no answers stops sending renewals after it has stepped down (B3)', async () => {
    const { elector, clock, link } = await leading()
    link.fate('all', 'lose-answer')
    await clock.advance(10_000)
    expect(elector.isLeader()).toBe(false)
    const renewals = () => link.calls.filter(({ verb }) => verb === 'renew').length
    const before = renewals()
    await clock.advance(10 * lease)
    expect(renewals()).toBe(before)
    await stopAndCheck(elector, clock)
  })

  test('the lease counts from the time a renewal was sent, not from its answer (A8, A9)', async () => {
    const { elector, clock, link } = await leading()
    const answer = link.hold('renew')
    await clock.advance(5_000 + 2_400)
    answer()
    await clock.advance(0)
    link.fate('all', 'lose-request')
    // The renewal was sent at 5,000 and answered at 7,400, so the deadline is 15,000.
    await clock.advance(15_000 - 7_400 - 1)
    expect(elector.isLeader()).toBe(true)
    await clock.advance(1)
    expect(elector.isLeader()).toBe(false)
    await stopAndCheck(elector, clock)
  })

  test('an answer that arrives after its timeout is dropped (B4, C5)', async () => {
    const { elector, clock, link, memory } = await leading()
    const answer = link.hold('renew')
    await clock.advance(5_000 + 3_001)
    link.fate('all', 'lose-request')
    answer()
    await clock.advance(10_000 - 8_001 - 1)
    expect(elector.isLeader()).toBe(true)
    await clock.advance(1)
    expect(elector.isLeader()).toBe(false)
    expect((await memory.read('e', call))?.term).toBe(1)
    await stopAndCheck(elector, clock)
  })

  test('a renewal whose answer was lost is adopted without a loss or an extension, and sent again at once', async () => {
    const { elector, clock, link } = await leading()
    link.fate('renew', 'lose-answer')
    await clock.advance(5_000)
    link.fate('renew', 'pass')
    const before = link.calls.length
    await clock.advance(3_000)
    // The retried renewal is refused because of its old version. The next one uses the adopted version.
    expect(link.calls.slice(before).map(({ verb }) => verb)).toEqual(['renew', 'renew'])
    expect(elector.isLeader()).toBe(true)
    expect(elector.leader()?.term).toBe(1)
    await stopAndCheck(elector, clock)
  })

  test('leadership ends at once when a refused renewal shows another holder', async () => {
    const { elector, clock, memory, leadership } = await leading()
    const record = await memory.read('e', call)
    if (!record) throw new Error('There is no record.')
    await memory.release(record, call)
    const claim = { election: 'e', holder: 'b', attempt: 'x', leaseDurationMs: lease, afterTerm: 1, metadata: {} }
    await memory.acquire(claim, call)
    await clock.advance(5_000)
    expect(elector.isLeader()).toBe(false)
    expect(leadership.signal.reason).toMatchObject({ reason: 'superseded' })
    await stopAndCheck(elector, clock)
  })

  test('leadership ends before the deadline after maxFailedRenewals failed renewals', async () => {
    const { elector, clock, link, leadership } = await leading({ maxFailedRenewals: 2 })
    link.fate('renew', 'fail')
    await clock.advance(6_999)
    expect(leadership.isLeader()).toBe(true)
    await clock.advance(1)
    expect(leadership.isLeader()).toBe(false)
    expect(leadership.signal.reason).toMatchObject({ reason: 'expired' })
    await stopAndCheck(elector, clock)
  })
})
