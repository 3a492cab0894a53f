import { describe, expect, test } from 'vitest'
import { Elector } from '../../../src/engine/elector.ts'
import { memoryStore } from '../../../src/stores/memory/index.ts'
import { fakeClock } from '../../../../testing/src/index.ts'

async function leader() {
  const clock = fakeClock()
  const elector = new Elector({ store: memoryStore({ clock }), election: 'e', clock, log: false })
  elector.start()
  await elector.waitForLeadership()
  return { clock, elector }
}

describe('a clock that nobody advances', () => {
  test('stop settles without a timer right after a lease expired during a sleep', async () => {
    const { clock, elector } = await leader()
    clock.sleep(60_000)
    expect(elector.isLeader()).toBe(false)
    await elector.stop()
  })

  test('stop settles without a timer right after a step-down without a cooldown', async () => {
    const { clock, elector } = await leader()
    await elector.stepDown({ cooldownMs: 0 })
    await elector.stop()
    expect(clock.timers).toBe(0)
  })

  test('waitForLeadership resolves without a timer right after a step-down without a cooldown', async () => {
    const { elector } = await leader()
    await elector.stepDown({ cooldownMs: 0 })
    expect((await elector.waitForLeadership()).term).toBe(2)
    await elector.stop()
  })
})
