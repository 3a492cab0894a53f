import { deepEqual, equal, ok } from 'node:assert/strict'
import { fakeClock, type FakeClock } from '../../../../testing/src/index.ts'
import type { LeaseStore, PreferenceOptions, VersionedValue } from '../../../src/index.ts'
import { cutOff, faultyStore } from '../../faulty-store.ts'
import { follow } from '../../promise-outcome.ts'
import type { Checks, Library } from './checks.ts'

const leaseMs = 15_000
const hourMs = 3_600_000

/** Checks of the answer that another process leads, on a store whose candidates decide expiry. */
export const busy: Checks = {
  async 'one call is enough for BUSY when the leader renewed within its lease by the wall clock'(library) {
    const { clock, store, attempt, stop } = await observed(library)
    const called = attempt(store)
    await clock.advance(0)
    equal(called.error?.code, 'BUSY')
    deepEqual(
      store.calls.map(({ verb }) => verb),
      ['acquire'],
    )
    await stop()
  },

  async 'a leader whose wall clock is an hour ahead is busy only after it renewed'(library) {
    const { clock, store, attempt, stop } = await observed(library)
    const called = attempt(store, behind(clock, hourMs))
    await clock.advance(900)
    equal(called.state, 'pending')
    await clock.advance(7_100)
    equal(called.error?.code, 'BUSY')
    await stop()
  },

  async 'a candidate whose wall clock is an hour ahead does not lead before the lease of the leader expires'(library) {
    const { clock, store, attempt, stop } = await observed(library)
    const called = attempt(store, behind(clock, -hourMs))
    for (let i = 0; i < 80; i += 1) {
      await clock.advance(100)
      equal(called.value, undefined, 'two processes lead')
    }
    equal(called.error?.code, 'BUSY')
    await stop()
  },

  async 'a candidate leads after a crash of the leader whose wall clock is an hour ahead'(library) {
    const { clock, store, crash, attempt } = await observed(library)
    await crash()
    const called = attempt(store, behind(clock, hourMs))
    await clock.advance(leaseMs - 100)
    equal(called.state, 'pending')
    await clock.advance(3_000)
    equal(called.value, 2)
  },

  async 'a crashed leader counts as alive for one lease and is then replaced'(library) {
    const { clock, store, crash, attempt } = await observed(library)
    await crash()
    const first = attempt(store)
    await clock.advance(100)
    equal(first.error?.code, 'BUSY')
    await clock.advance(leaseMs)
    const second = attempt(store)
    await clock.advance(leaseMs + 3_000)
    equal(second.value, 2)
  },

  async 'an elector with waitMs asks the store when waitMs has passed, and not more often before that'(library) {
    const { clock, store, attempt, stop } = await observed(library)
    const called = attempt(store, clock, 7_000)
    await clock.advance(6_900)
    equal(called.state, 'pending')
    const calls = store.calls.length
    await clock.advance(100)
    equal(called.error?.code, 'BUSY')
    equal(store.calls.length, calls + 1)
    await stop()
  },

  async 'an elector whose waitMs has passed sleeps while it leaves a released lease to a higher priority'(library) {
    const { clock, store, attempt, stop } = await observed(library)
    const { counted, timers } = withTimerLimit(clock)
    const called = attempt(store, counted, 7_000, { priority: 'low' })
    await clock.advance(6_900)
    await stop()
    await clock.advance(13_000)
    equal(called.value, 2)
    ok(timers() < 100, `${timers()} timers were set`)
  },
}

/** A leader that has just renewed, and the tries of another candidate, each on its own connection. */
async function observed({ casStore, Elector }: Library) {
  const clock = fakeClock()
  const shared = sharedStore(casStore, clock)
  const options = { election: 'import', clock, observer: { onEvent: () => undefined } }
  const link = faultyStore(shared, clock)
  const leader = new Elector({ ...options, store: link, identity: 'leader' })
  leader.start()
  await clock.advance(5_001)
  const attempt = (store: LeaseStore, ownClock = clock, waitMs = 0, preference: PreferenceOptions = {}) => {
    const elector = new Elector({ ...options, ...preference, store, clock: ownClock })
    elector.start({ until: 'busy', waitMs })
    const outcome = follow(elector.waitForLeadership().then(({ term }) => term))
    return outcome as typeof outcome & { readonly error?: { readonly code: string } }
  }
  return {
    clock,
    store: faultyStore(shared, clock),
    attempt,
    async crash() {
      cutOff(link)
      await clock.advance(0)
    },
    stop: () => Promise.all([leader.stop(), clock.advance(1_000)]),
  }
}

function sharedStore(casStore: Library['casStore'], clock: FakeClock): LeaseStore {
  const values = new Map<string, VersionedValue>()
  const cas = {
    get: async (key: string) => values.get(key),
    async putIfVersion(key: string, value: string, version: string | undefined) {
      if (values.get(key)?.version !== version) return undefined
      const next = String(Number(version ?? 0) + 1)
      values.set(key, { value, version: next })
      return next
    },
  }
  return casStore(cas, { clock })
}

/** The same clock for a process whose wall clock is behind. */
function behind(clock: FakeClock, ms: number): FakeClock {
  return { ...clock, wallMs: () => clock.wallMs() - ms }
}

/** The same clock, and how many timers were set. Timers beyond a limit never fire, so that a busy loop ends. */
function withTimerLimit(clock: FakeClock): { readonly counted: FakeClock; timers(): number } {
  let count = 0
  const counted: FakeClock = {
    ...clock,
    setTimer: (ms, callback) => clock.setTimer((count += 1) > 1_000 ? hourMs : ms, callback),
  }
  return { counted, timers: () => count }
}
