import { expect, test } from 'vitest'
import { Elector } from '../src/elector.ts'
import { memoryStore } from '../src/stores/memory.ts'
import { fakeClock } from '../src/testing/index.ts'

test('a lone candidate leads and keeps leading', async () => {
  const clock = fakeClock()
  const elector = new Elector({ store: memoryStore({ clock }), election: 'e', clock })
  elector.start()
  await clock.advance(0)
  expect(elector.isLeader()).toBe(true)
  await clock.advance(600_000)
  expect(elector.isLeader()).toBe(true)
  expect(elector.leader()?.term).toBe(1)
  await elector.stop()
  expect(elector.isLeader()).toBe(false)
  expect(clock.timers).toBe(0)
})

test('a standby takes over at expiry when the leader is silent', async () => {
  const clock = fakeClock()
  const store = memoryStore({ clock })
  await store.acquire({ election: 'e', holder: 'gone', attempt: 'x', leaseDurationMs: 15_000, afterTerm: 0, metadata: {} }, { signal: new AbortController().signal })
  const elector = new Elector({ store, election: 'e', clock })
  elector.start()
  await clock.advance(14_999)
  expect(elector.isLeader()).toBe(false)
  await clock.advance(1 + 75)
  expect(elector.isLeader()).toBe(true)
  expect(elector.leader()?.term).toBe(2)
  await elector.stop()
  expect(clock.timers).toBe(0)
})
