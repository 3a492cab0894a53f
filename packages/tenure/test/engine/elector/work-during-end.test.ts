import { describe, expect, test } from 'vitest'
import { Elector, memoryStore, type Leadership } from '../../../src/index.ts'
import { fakeClock } from '../../../../testing/src/index.ts'

const call = { signal: new AbortController().signal }

/** Starts two electors on one store. The first one leads. */
async function scene() {
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  let cut = false
  const store = {
    ...memory,
    renew: (...args: Parameters<typeof memory.renew>) =>
      cut ? Promise.reject(new Error('no route')) : memory.renew(...args),
  }
  const make = (identity: string) =>
    new Elector({ store, election: 'e', identity, clock, observer: { onEvent: () => undefined } })
  const [elector, standby] = [make('a'), make('b')]
  elector.start()
  await clock.advance(0)
  standby.start()
  const leadership = await elector.waitForLeadership()
  return { clock, memory, elector, standby, leadership, cut: () => (cut = true) }
}

type Scene = Awaited<ReturnType<typeof scene>>
type Listener = (scene: Scene) => void

const endings: Record<string, (scene: Scene) => unknown> = {
  'a step-down': ({ elector }) => elector.stepDown(),
  'a stop': ({ elector }) => elector.stop(),
  'an expiry': async ({ clock, cut }) => {
    cut()
    await clock.advance(10_001)
  },
}
const listeners: Record<string, Listener> = {
  stop: ({ elector }) => void elector.stop(),
  stepDown: ({ elector }) => void elector.stepDown({ cooldownMs: 1 }),
  'stop, stepDown': ({ elector }) => {
    void elector.stop()
    void elector.stepDown({ cooldownMs: 1 })
  },
  'stepDown, stop': ({ elector }) => {
    void elector.stepDown({ cooldownMs: 1 })
    void elector.stop()
  },
}

/** Adds work that takes 4 s, which is less than the time left on a lease that could not be renewed. */
function handIn({ clock, leadership }: { clock: Scene['clock']; leadership: Leadership }): { settled: boolean } {
  const work = { settled: false }
  leadership.waitUntil(
    new Promise<void>((resolve) =>
      clock.setTimer(4_000, () => {
        work.settled = true
        resolve()
      }),
    ),
  )
  return work
}

describe('work that an abort listener adds', () => {
  const cases = Object.keys(endings).flatMap((ending) =>
    Object.keys(listeners).flatMap((listener) => [
      { ending, listener, order: 'before' },
      { ending, listener, order: 'after' },
    ]),
  )
  test.each(cases)(
    'work that an abort listener adds during $ending settles before the release, even if a listener $order it calls $listener',
    async ({ ending, listener, order }) => {
      const s = await scene()
      const callBack = () => listeners[listener]?.(s)
      let work = { settled: true }
      if (order === 'before') s.leadership.signal.addEventListener('abort', callBack)
      s.leadership.signal.addEventListener('abort', () => (work = handIn(s)))
      if (order === 'after') s.leadership.signal.addEventListener('abort', callBack)
      void endings[ending]?.(s)
      let releasedUnder = false
      for (let ms = 0; ms < 20_000; ms += 100) {
        await s.clock.advance(100)
        const record = await s.memory.read('e', call)
        const held = record?.holder === 'a' && record.term === 1 && !record.released
        if (!held && !work.settled) releasedUnder = true
      }
      expect(s.leadership.signal.aborted).toBe(true)
      expect(work.settled).toBe(true)
      expect(releasedUnder).toBe(false)
      await Promise.all([s.elector.stop(), s.standby.stop(), s.clock.advance(60_000)])
      expect(s.clock.timers).toBe(0)
    },
  )
})
