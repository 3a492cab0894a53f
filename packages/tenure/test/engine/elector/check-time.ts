import { equal, ok } from 'node:assert/strict'
import { fakeClock } from '../../../../testing/src/index.ts'
import { withoutSpin } from '../../spin-guard-clock.ts'
import type { Checks } from './checks.ts'

const deadlineMs = 10_000

/** Checks of the comparison between the monotonic clock and the clock that counts sleep. */
export const time: Checks = {
  async 'rounded boot time does not shorten a lease'({ Elector, memoryStore }) {
    const clock = fakeClock()
    // The sleep meter starts when rounding hides nine milliseconds, and reads the clock again when rounding hides none.
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

  async 'time advances after the machine slept for a fractional number of milliseconds'({ Elector, memoryStore }) {
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
