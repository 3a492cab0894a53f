import { equal, ok } from 'node:assert/strict'
import { fakeClock } from '../../src/testing/index.ts'
import { withoutSpin } from '../spin.ts'
import type { Checks } from './checks.ts'

const deadlineMs = 10_000

/** What holds where the monotonic clock and the one that counts sleep are compared. */
export const time: Checks = {
  async 'a lease is not shorter because boot time is rounded'({ Elector, memoryStore }) {
    const clock = fakeClock()
    // The meter begins when rounding hides nine milliseconds, and looks when it hides none.
    await clock.advance(9)
    const coarse = { ...clock, bootMs: () => Math.floor(clock.bootMs() / 10) * 10 }
    const store = memoryStore({ clock })
    const renew = () => Promise.reject(new Error('The store is out of reach.'))
    const elector = new Elector({ store: { ...store, renew }, election: 'e', clock: coarse })
    await clock.advance(1)
    elector.start({ until: 'lost' })
    await clock.advance(0)
    ok(elector.isLeader())
    await clock.advance(deadlineMs - 1)
    ok(elector.isLeader(), 'leadership ended early')
    await clock.advance(1)
    equal(elector.isLeader(), false)
    await Promise.all([elector.stop(), clock.advance(60_000)])
  },

  async 'time passes although the machine slept for a time that is no whole number'({ Elector, memoryStore }) {
    const clock = withoutSpin(fakeClock())
    const store = memoryStore({ clock })
    const elector = new Elector({ store, election: 'e', clock, leaseDurationMs: 8_242 })
    elector.start()
    clock.sleep(4096.000005307212)
    await clock.advance(60_000)
    ok(elector.isLeader())
    await Promise.all([elector.stop(), clock.advance(60_000)])
  },
}
