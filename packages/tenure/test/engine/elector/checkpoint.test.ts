import { describe, expect, test } from 'vitest'
import { call, leading, stopAndCheck } from './elector-fixture.ts'

describe('the checkpoint of a leader', () => {
  test('a checkpoint is durable before its write resolves, and survives a handover', async () => {
    const { elector, make, clock, memory, leadership } = await leading()
    expect(leadership.checkpoint).toBe('')
    const set = leadership.setCheckpoint('last run 2030-01-01')
    await clock.advance(0)
    await set
    expect((await memory.read('e', call))?.checkpoint).toBe('last run 2030-01-01')
    const next = make({ identity: 'b' })
    next.start()
    await clock.advance(0)
    await Promise.all([elector.stop(), clock.advance(10)])
    expect((await next.waitForLeadership()).checkpoint).toBe('last run 2030-01-01')
    await stopAndCheck(next, clock)
  })

  test('a checkpoint is written again after a failed renewal, and rejected after leadership is lost', async () => {
    const { elector, clock, link, leadership, memory } = await leading()
    link.fate('renew', 'fail')
    const first = leadership.setCheckpoint('one')
    const second = leadership.setCheckpoint('two')
    await clock.advance(100)
    link.fate('renew', 'pass')
    await clock.advance(3_000)
    await Promise.all([first, second])
    expect((await memory.read('e', call))?.checkpoint).toBe('two')
    link.fate('all', 'lose-request')
    const lost = leadership.setCheckpoint('three')
    const outcome = expect(lost).rejects.toMatchObject({ code: 'LEADERSHIP_LOST' })
    await clock.advance(15_000)
    await outcome
    await expect(leadership.setCheckpoint('four')).rejects.toMatchObject({ code: 'LEADERSHIP_LOST' })
    await stopAndCheck(elector, clock)
  })
})
