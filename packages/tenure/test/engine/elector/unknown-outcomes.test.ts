import { describe, expect, test } from 'vitest'
import { call, leading, lease, scene, stopAndCheck } from './elector-fixture.ts'

describe('unknown outcomes', () => {
  test('a read finds an acquire whose answer was lost, and its lease counts from the first transmission (B2)', async () => {
    const { elector, clock, link, memory } = scene({ watch: false, renewDeadlineMs: 13_000, retryIntervalMs: 1_000 })
    link.fate('acquire', 'lose-answer')
    link.fate('renew', 'lose-request')
    elector.start()
    await clock.advance(10_999)
    expect(elector.isLeader()).toBe(false)
    await clock.advance(1)
    expect(elector.isLeader()).toBe(true)
    expect((await memory.read('e', call))?.term).toBe(1)
    link.fate('all', 'lose-request')
    await clock.advance(2_000 - 1)
    expect(elector.isLeader()).toBe(true)
    await clock.advance(1)
    expect(elector.isLeader()).toBe(false)
    await stopAndCheck(elector, clock)
  })

  test('an acquire is retried with the same attempt, then abandoned, and its late grant is released', async () => {
    const { elector, clock, link, memory } = scene({ watch: false })
    link.fate('acquire', 'lose-answer')
    link.fate('read', 'fail')
    elector.start()
    await clock.advance(10_500)
    link.fate('read', 'pass')
    link.fate('acquire', 'pass')
    await clock.advance(3_000)
    const released = link.calls.filter(({ verb }) => verb === 'release')
    expect(released).toHaveLength(1)
    expect(elector.isLeader()).toBe(true)
    expect((await memory.read('e', call))?.term).toBe(2)
    await stopAndCheck(elector, clock)
  })

  test('a grant that arrives too late to lead is released', async () => {
    const { elector, clock, link, memory } = scene({ watch: false })
    const answer = link.hold('acquire')
    elector.start()
    await clock.advance(5_900)
    answer()
    clock.sleep(9_000)
    await clock.advance(10)
    const released = link.calls.filter(({ verb }) => verb === 'release')
    expect(released).toHaveLength(1)
    await clock.advance(5_000)
    expect((await memory.read('e', call))?.term).toBe(2)
    await stopAndCheck(elector, clock)
  })

  test('stop releases a grant whose answer is in flight', async () => {
    const { elector, clock, link, memory } = scene()
    const answer = link.hold('acquire')
    elector.start()
    await clock.advance(100)
    const stopped = elector.stop()
    answer()
    await clock.advance(0)
    await stopped
    expect(elector.isLeader()).toBe(false)
    expect((await memory.read('e', call))?.released).toBe(true)
    expect(clock.timers).toBe(0)
  })

  test('stop settles in bounded time for every store fault (C9, C10)', async () => {
    for (const leaseDurationMs of [lease, 2 * 60 * 60_000]) {
      for (const fate of ['fail', 'lose-request', 'lose-answer'] as const) {
        for (const afterMs of [0, 1, 4_999, 5_001, 12_000, 40_000]) {
          for (const from of ['start', 'leading'] as const) {
            const { elector, clock, link } = scene({ leaseDurationMs })
            if (from === 'leading') {
              elector.start()
              await clock.advance(0)
            }
            link.fate('all', fate)
            if (from === 'start') elector.start()
            await clock.advance(afterMs)
            const stopped = elector.stop()
            await clock.advance(10_000)
            await stopped
            expect(elector.isLeader()).toBe(false)
            expect(clock.timers).toBe(0)
          }
        }
      }
    }
  })

  test('stop does not wait for the next try when the last one failed', async () => {
    const { elector, clock, link } = scene({ leaseDurationMs: 60_000 })
    link.fate('all', 'fail')
    elector.start()
    await clock.advance(1_000)
    const stopped = elector.stop()
    await clock.advance(100)
    await stopped
    expect(clock.timers).toBe(0)
  })

  test('stop releases a long lease even when its first try fails', async () => {
    const { elector, clock, link, memory } = scene({ leaseDurationMs: 2 * 60 * 60_000 })
    elector.start()
    await clock.advance(0)
    link.fate('release', 'fail')
    const stopped = elector.stop()
    await clock.advance(1_000)
    link.fate('release', 'pass')
    await clock.advance(5_000)
    await stopped
    expect(await memory.read('e', call)).toMatchObject({ term: 1, released: true })
  })
})

describe('vanished records', () => {
  test('a deleted record counts as held for its duration (D9)', async () => {
    const { elector, make, clock, memory } = await leading()
    const standby = make({ identity: 'b' })
    standby.start()
    await clock.advance(1_000)
    memory.delete('e')
    await clock.advance(0)
    expect(standby.explain().summary).toMatch(/the record of "e" was deleted/)
    // The leader notices at its next renewal. Nobody leads before the lease has expired.
    await clock.advance(5_000)
    expect([elector.isLeader(), standby.isLeader()]).toEqual([false, false])
    await clock.advance(lease)
    expect([elector.isLeader(), standby.isLeader()].filter(Boolean)).toHaveLength(1)
    expect((await memory.read('e', call))?.term).toBe(2)
    await stopAndCheck(elector, clock).catch(() => undefined)
    await stopAndCheck(standby, clock)
  })
})
