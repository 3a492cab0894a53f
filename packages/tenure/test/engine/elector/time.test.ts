import { describe, expect, test } from 'vitest'
import { leading, lease, stopAndCheck } from './elector-fixture.ts'

describe('time', () => {
  test.each([3_600_000, -3_600_000])(
    'a wall clock that is moved by %d ms changes nothing (A1, A2, A13)',
    async (jump) => {
      const { elector, clock, events } = await leading()
      for (let round = 0; round < 10; round += 1) {
        clock.setWall(clock.wallMs() + jump)
        expect(elector.isLeader()).toBe(true)
        await clock.advance(lease)
      }
      expect(elector.isLeader()).toBe(true)
      expect(events.filter(({ type }) => type === 'lost')).toEqual([])
      await stopAndCheck(elector, clock)
    },
  )

  test('isLeader is false immediately after a sleep longer than the lease (A4)', async () => {
    const { elector, clock, leadership } = await leading()
    clock.sleep(3 * lease)
    expect(elector.isLeader()).toBe(false)
    expect(() => leadership.throwIfLost()).toThrow(/was not renewed in time/)
    await clock.advance(0)
    expect(leadership.signal.aborted).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('the periodic tick aborts the signal after a sleep, even if nobody calls isLeader (A4)', async () => {
    const { elector, clock, leadership } = await leading()
    const { signal } = leadership
    clock.sleep(3 * lease)
    // Set the wall clock back by the same time, so that it does not show the sleep.
    clock.setWall(clock.wallMs() - 3 * lease)
    await clock.advance(1_000)
    expect(signal.aborted).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('leadership survives a sleep that leaves time on the lease', async () => {
    const { elector, clock } = await leading()
    clock.sleep(4_000)
    expect(elector.isLeader()).toBe(true)
    await clock.advance(lease)
    expect(elector.isLeader()).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('remainingMs counts down to the deadline, and drainMs to the end of belief', async () => {
    const { elector, clock, leadership, link } = await leading()
    expect(leadership.remainingMs()).toBe(10_000)
    expect(leadership.drainMs()).toBeCloseTo((lease * 0.99) / 1.01, 6)
    link.fate('all', 'lose-request')
    await clock.advance(10_000)
    expect(leadership.remainingMs()).toBe(0)
    expect(leadership.drainMs()).toBe(0)
    await stopAndCheck(elector, clock)
  })
})
