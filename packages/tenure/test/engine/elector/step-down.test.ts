import { describe, expect, test } from 'vitest'
import { call, leading, lease, stopAndCheck } from './elector-fixture.ts'

describe('stepping down', () => {
  test('stepDown releases the lease, and the elector stays out for one lease duration', async () => {
    const { elector, make, clock } = await leading()
    const other = make({ identity: 'b' })
    other.start()
    await clock.advance(0)
    const down = elector.stepDown()
    await clock.advance(lease / 2000)
    await down
    expect(other.isLeader()).toBe(true)
    expect(elector.explain().summary).toMatch(/Stays out of "e" for another 1\d\.\d s/)
    await stopAndCheck(other, clock).catch(() => undefined)
    await clock.advance(lease)
    expect(elector.isLeader()).toBe(true)
    expect(elector.leader()?.term).toBe(3)
    await stopAndCheck(elector, clock)
  })

  test('stepDown keeps the elector out for its cooldown even when nobody else campaigns', async () => {
    const { elector, clock } = await leading()
    await Promise.all([elector.stepDown({ cooldownMs: 40_000 }), clock.advance(0)])
    await clock.advance(39_999)
    expect(elector.isLeader()).toBe(false)
    await clock.advance(2)
    expect(elector.isLeader()).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('stepDown settles when work does not, and leaves the lease to expire', async () => {
    const { elector, clock, leadership, memory } = await leading({ drainTimeoutMs: 5_000 })
    leadership.waitUntil(new Promise(() => undefined))
    await Promise.all([elector.stepDown(), clock.advance(5_000)])
    expect((await memory.read('e', call))?.released).toBe(false)
    expect(elector.explain().summary).toMatch(/does not campaign/)
    await stopAndCheck(elector, clock)
  })
})
