import { deepEqual } from 'node:assert/strict'
import { blockableClock, type BlockableClock } from './blockable-clock.ts'
import type { Checks } from './checks.ts'

const deadlineMs = 10_000
/** Enough rounds to show that nothing else gets a turn. The check must end even when the library is a mutant. */
const mostRounds = 20

/** Blocks the event loop past the deadline in each term, until a timer of the application fires. */
function blockingWork(clock: BlockableClock) {
  const state = { rounds: 0, fired: false }
  return {
    state,
    isOver: () => state.fired || state.rounds >= mostRounds,
    block() {
      if (state.rounds === 0) setTimeout(() => (state.fired = true), 0)
      state.rounds += 1
      clock.block(deadlineMs + 1)
    },
  }
}

/** Checks of work that blocks the event loop past its lease, on a store that answers without I/O. */
export const blockedLoop: Checks = {
  async 'lead wins again only after other timers had a turn'({ lead, memoryStore }) {
    const clock = blockableClock()
    const { state, isOver, block } = blockingWork(clock)
    await lead({ store: memoryStore({ clock }), election: 'e', clock }, () => {
      if (!isOver()) block()
    })
    deepEqual(state, { rounds: 1, fired: true })
  },

  async 'an elector wins again only after other timers had a turn'({ Elector, memoryStore }) {
    const clock = blockableClock()
    const { state, isOver, block } = blockingWork(clock)
    const elector = new Elector({ store: memoryStore({ clock }), election: 'e', clock })
    elector.start()
    for (;;) {
      const leadership = await elector.waitForLeadership()
      if (isOver()) break
      leadership.waitUntil(Promise.resolve().then(block))
      await new Promise((resolve) => leadership.signal.addEventListener('abort', resolve, { once: true }))
    }
    await elector.stop()
    deepEqual(state, { rounds: 1, fired: true })
  },
}
