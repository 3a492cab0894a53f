import { expect } from 'vitest'
import { Elector, memoryStore, type ElectionEvent, type ElectorOptions } from '../../../src/index.ts'
import { fakeClock, type FakeClock } from '../../../../testing/src/index.ts'
import { wire } from '../../faulty-connection.ts'

export const lease = 15_000
export const call = { signal: new AbortController().signal }

export function scene({ watch, ...options }: Partial<ElectorOptions> & { watch?: boolean | undefined } = {}) {
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  const link = wire(memory, { watch })
  const events: ElectionEvent[] = []
  const make = (more: Partial<ElectorOptions> = {}) =>
    new Elector({
      store: link.store,
      election: 'e',
      identity: 'a',
      clock,
      observer: { onEvent: (event) => void events.push(event) },
      ...options,
      ...more,
    })
  return { clock, memory, link, events, make, elector: make() }
}

export async function leading(options: Parameters<typeof scene>[0] = {}) {
  const s = scene(options)
  s.elector.start()
  await s.clock.advance(0)
  return { ...s, leadership: await s.elector.waitForLeadership() }
}

export async function stopAndCheck(elector: Elector, clock: FakeClock): Promise<void> {
  const stopped = elector.stop()
  await clock.advance(60_000)
  await stopped
  expect(clock.timers).toBe(0)
}
