import { deepEqual, equal, throws } from 'node:assert/strict'
import { fakeClock } from '../../../../testing/src/index.ts'
import type { Checks, Library } from './checks.ts'

async function leading({ Elector, memoryStore }: Library) {
  const clock = fakeClock()
  const elector = new Elector({ store: memoryStore({ clock }), election: 'e', identity: 'a', clock, log: false })
  elector.start()
  const leadership = await elector.waitForLeadership()
  return { clock, elector, leadership }
}

/** Checks of `leadership.stepDown()`, which only ends its own term. */
export const stepDowns: Checks = {
  async 'stepDown of a leadership that has ended does not end a later one'(library) {
    const { clock, elector, leadership: first } = await leading(library)
    first.stepDown({ cooldownMs: 0 })
    deepEqual([first.isLeader(), first.signal.reason.reason], [false, 'released'])
    await clock.advance(1_000)
    const second = await elector.waitForLeadership()
    first.stepDown()
    deepEqual([second.isLeader(), second.term], [true, 2])
    await Promise.all([elector.stop(), clock.advance(1_000)])
  },

  async 'stepDown of a leadership throws at once if an option is invalid, and the term continues'(library) {
    const { clock, elector, leadership } = await leading(library)
    const isInvalid = (message: RegExp) => ({ name: 'TypeError', code: 'INVALID_OPTION', message })
    throws(() => leadership.stepDown({ to: 'a' }), isInvalid(/"to" is "a", but it must name another candidate/))
    throws(() => leadership.stepDown({ cooldownMs: -1 }), isInvalid(/"cooldownMs" is -1/))
    equal(leadership.isLeader(), true)
    await Promise.all([elector.stop(), clock.advance(1_000)])
  },
}
