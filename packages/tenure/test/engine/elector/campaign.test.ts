import { describe, expect, test } from 'vitest'
import { call, leading, lease, scene, stopAndCheck } from './elector-fixture.ts'

describe('campaigning', () => {
  test('an elector that is alone leads and keeps leading', async () => {
    const { elector, clock, memory } = await leading()
    for (let minute = 0; minute < 60; minute += 1) {
      await clock.advance(60_000)
      expect(elector.isLeader()).toBe(true)
    }
    expect((await memory.read('e', call))?.term).toBe(1)
    await stopAndCheck(elector, clock)
  })

  test('an elector emits new-leader, elected, and lost in this order', async () => {
    const { elector, clock, events } = await leading()
    await stopAndCheck(elector, clock)
    const types = events.map(({ type }) => type).filter((type) => type !== 'renewed')
    expect(types).toEqual(['new-leader', 'elected', 'lost'])
  })

  test('start throws when the elector was started or stopped before', async () => {
    const { elector, clock } = await leading()
    expect(() => elector.start()).toThrow(/was already started or stopped/)
    await stopAndCheck(elector, clock)
    expect(() => elector.start()).toThrow(/was already started or stopped/)
  })

  test('an elector stops when its start signal aborts, or at once when it has already aborted', async () => {
    const first = scene()
    first.elector.start({ signal: AbortSignal.abort() })
    await first.elector.stop()
    expect(first.link.calls).toEqual([])
    const second = scene()
    const controller = new AbortController()
    second.elector.start({ signal: controller.signal })
    await second.clock.advance(0)
    controller.abort()
    await second.elector.stop()
    expect((await second.memory.read('e', call))?.released).toBe(true)
  })

  test('stop settles at once on a standby whose acquire is refused', async () => {
    const { clock, memory, elector } = scene()
    const claim = { election: 'e', holder: 'b', attempt: 'x', leaseDurationMs: lease, afterTerm: 0, metadata: {} }
    await memory.acquire(claim, call)
    elector.start()
    await elector.stop()
    expect(clock.timers).toBe(0)
  })

  test('two electors with the same identity in one process do not share a lease (C4)', async () => {
    const { elector, make, clock } = await leading()
    const twin = make()
    twin.start()
    await clock.advance(10 * lease)
    expect([elector.isLeader(), twin.isLeader()]).toEqual([true, false])
    await stopAndCheck(elector, clock).catch(() => undefined)
    await clock.advance(lease)
    expect(twin.isLeader()).toBe(true)
    expect(twin.leader()?.term).toBe(2)
    await stopAndCheck(twin, clock)
  })

  test('a restarted process waits for the lease under its old identity and gets a higher term (C3)', async () => {
    const { clock, memory, make } = scene()
    const claim = { election: 'e', holder: 'a', attempt: 'crashed', leaseDurationMs: lease, afterTerm: 0, metadata: {} }
    await memory.acquire(claim, call)
    const restarted = make()
    restarted.start()
    await clock.advance(lease - 1)
    expect(restarted.isLeader()).toBe(false)
    await clock.advance(1 + lease / 200)
    expect(restarted.isLeader()).toBe(true)
    expect(restarted.leader()?.term).toBe(2)
    await stopAndCheck(restarted, clock)
  })

  test('a standby campaigns at the moment of expiry, not at the next poll (C1)', async () => {
    const { clock, memory, make, link } = scene()
    const claim = { election: 'e', holder: 'b', attempt: 'x', leaseDurationMs: lease, afterTerm: 0, metadata: {} }
    await memory.acquire(claim, call)
    const standby = make()
    standby.start()
    await clock.advance(lease - 1)
    // The standby tries once at the start. With a watch, it does not poll.
    expect(link.calls.map(({ verb }) => verb)).toEqual(['acquire'])
    await clock.advance(1 + lease / 200)
    expect(standby.isLeader()).toBe(true)
    await stopAndCheck(standby, clock)
  })

  test('a standby campaigns immediately when its watch shows a release', async () => {
    const { elector, make, clock } = await leading()
    const standby = make({ identity: 'b' })
    standby.start()
    await clock.advance(1_000)
    await Promise.all([elector.stop(), clock.advance(lease / 2000)])
    expect(standby.isLeader()).toBe(true)
    await stopAndCheck(standby, clock)
  })

  test('an idle standby with a watch sends at most one request per lease duration', async () => {
    const { elector, make, clock, link } = await leading()
    const standby = make({ identity: 'b' })
    standby.start()
    await clock.advance(0)
    const before = link.calls.filter(({ verb }) => verb !== 'renew').length
    await clock.advance(20 * lease)
    expect(link.calls.filter(({ verb }) => verb !== 'renew').length - before).toBeLessThanOrEqual(20)
    expect(elector.isLeader()).toBe(true)
    await stopAndCheck(standby, clock).catch(() => undefined)
    await stopAndCheck(elector, clock)
  })

  test('an elector campaigns through any number of failures and leads when the store is back', async () => {
    const { elector, clock, link, events } = scene()
    link.fate('all', 'fail')
    elector.start()
    await clock.advance(40 * lease)
    expect(events.filter(({ type }) => type === 'error').length).toBeGreaterThan(100)
    link.fate('all', 'pass')
    await clock.advance(lease)
    expect(elector.isLeader()).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('a lease expires after the duration in its record when electors use different durations (A12)', async () => {
    const { clock, memory, make } = scene()
    const claim = { election: 'e', holder: 'b', attempt: 'x', leaseDurationMs: 60_000, afterTerm: 0, metadata: {} }
    await memory.acquire(claim, call)
    const impatient = make({ leaseDurationMs: 1_000 })
    impatient.start()
    await clock.advance(59_999)
    expect(impatient.isLeader()).toBe(false)
    await clock.advance(500)
    expect(impatient.isLeader()).toBe(true)
    await stopAndCheck(impatient, clock)
  })
})
