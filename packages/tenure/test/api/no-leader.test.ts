import { describe, expect, test } from 'vitest'
import type { StoreElectorOptions } from '../../src/index.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { cutOff, type Verb } from '../faulty-store.ts'
import { stallable } from '../stallable-clock.ts'
import { election, lone, start, type Replica } from './replicas.ts'

const leaseMs = 15_000
const retryMs = 2_000

/** A leader and a standby that polls. Without a watch the standby knows only what its own calls return. */
async function pair(more: Partial<StoreElectorOptions> = {}) {
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  const leader = start(clock, memory, 'pod-a')
  await clock.advance(0)
  const standby = start(clock, memory, 'pod-b', { watch: false, ...more })
  await clock.advance(4_000)
  expect(standby.callbackCalls).toEqual(['leader pod-a'])
  return { clock, memory, leader, standby }
}

const fails = (...verbs: Verb[]) => ({
  fault: (verb: Verb) => (verbs.includes(verb) ? ('error' as const) : undefined),
})
const leaders = ({ callbackCalls }: Replica) =>
  callbackCalls.filter((text) => text.startsWith('leader ')).map((text) => text.slice(7))
/** Whether the last reported leader equals getLeader(). */
const agrees = (replica: Replica) => leaders(replica).at(-1) === replica.elector.getLeader()

describe('no leader after an observed lease has expired', () => {
  test('a standby that cannot reach its store reports once, after one lease, that nobody leads, and reports the leader again later', async () => {
    const { clock, leader, standby } = await pair()
    // Wait for the first poll after the leader's first renewal.
    const lastMs = () => standby.store.calls.at(-1)?.atMs ?? NaN
    while (lastMs() < 5_000) await clock.advance(1)
    const seenMs = lastMs()
    cutOff(standby.store)
    await clock.advance(seenMs + leaseMs - 1 - clock.monotonicMs())
    expect(standby.elector.getLeader()).toBe('pod-a')
    expect(leaders(standby)).toEqual(['pod-a'])
    await clock.advance(1)
    expect(standby.elector.getLeader()).toBe('')
    expect(leaders(standby)).toEqual(['pod-a', ''])
    await clock.advance(3_600_000)
    expect(leaders(standby)).toEqual(['pod-a', ''])
    standby.store.fault = () => undefined
    await clock.advance(30_000)
    expect(leader.leadership()?.term, 'the leader never lost its term').toBe(1)
    expect(leaders(standby)).toEqual(['pod-a', '', 'pod-a'])
    expect(agrees(standby)).toBe(true)
  })

  test("a standby that can read but not write reports that nobody leads while a dead leader's lease stays in the store", async () => {
    const { clock, memory, leader, standby } = await pair()
    Object.assign(standby.store, fails('acquire'))
    cutOff(leader.store)
    await clock.advance(60_000)
    expect(await memory.read(election, { signal: new AbortController().signal })).toMatchObject({ released: false })
    expect(leaders(standby)).toEqual(['pod-a', ''])
    expect(standby.elector.getLeader()).toBe('')
    standby.store.fault = () => undefined
    await clock.advance(10_000)
    expect(leaders(standby)).toEqual(['pod-a', '', 'pod-b'])
  })

  test('a standby never reports that nobody leads while a leader keeps renewing', async () => {
    const { clock, standby } = await pair()
    for (let round = 0; round < 1_000; round++) {
      await clock.advance(1_000)
      expect(agrees(standby)).toBe(true)
    }
    expect(leaders(standby)).toEqual(['pod-a'])
  })

  test('getLeader() returns no leader after the lease has expired, even if no timer could fire', async () => {
    const fake = fakeClock()
    const clock = stallable(fake)
    const memory = memoryStore({ clock: fake })
    start(fake, memory, 'pod-a')
    await fake.advance(0)
    const standby = start(fake, memory, 'pod-b', { watch: false, clock })
    await fake.advance(0)
    expect(standby.elector.getLeader()).toBe('pod-a')
    clock.stall()
    await fake.advance(leaseMs)
    expect(standby.elector.getLeader()).toBe('')
    expect(leaders(standby)).toEqual(['pod-a'])
    clock.resume()
    await fake.advance(5_000)
    expect(agrees(standby)).toBe(true)
    expect(leaders(standby).at(-1)).toBe('pod-a')
  })

  test('a leader that lost its own lease reports that nobody leads when others may lead', async () => {
    const { clock, store, elector, ...replica } = lone()
    await clock.advance(0)
    cutOff(store)
    await clock.advance(14_000)
    expect(elector.isLeader()).toBe(false)
    expect(leaders({ ...replica, store, elector })).toEqual(['pod-0'])
    await clock.advance(1_000)
    expect(leaders({ ...replica, store, elector })).toEqual(['pod-0', ''])
    await clock.advance(60_000)
    expect(leaders({ ...replica, store, elector })).toEqual(['pod-0', ''])
  })
})

describe('a released lease', () => {
  test('a standby reports the next leader after a release, without reporting in between that nobody leads', async () => {
    const { clock, leader, standby } = await pair()
    leader.abort()
    await clock.advance(60_000)
    expect(leaders(standby)).toEqual(['pod-a', 'pod-b'])
  })

  test('a polling standby reports that nobody leads when a released lease stays free for three retry periods', async () => {
    const { clock, leader, standby } = await pair()
    Object.assign(standby.store, fails('acquire'))
    leader.abort()
    // The standby notices the release at its next poll.
    while (standby.elector.getLeader() !== '') await clock.advance(1)
    await clock.advance(3 * retryMs - 1)
    expect(leaders(standby)).toEqual(['pod-a'])
    await clock.advance(1)
    expect(leaders(standby)).toEqual(['pod-a', ''])
    await clock.advance(60_000)
    expect(leaders(standby)).toEqual(['pod-a', ''])
  })

  test('a replica that stops gets no more callbacks after the release and leaves no timer', async () => {
    const { clock, leader, standby } = await pair()
    leader.abort()
    standby.abort()
    await clock.advance(1_000)
    const told = [leader, standby].map((replica) => [...replica.callbackCalls])
    expect(clock.timers).toBe(0)
    await clock.advance(60_000)
    expect([leader, standby].map((replica) => replica.callbackCalls)).toEqual(told)
    expect([leader, standby].map(({ elector }) => elector.getLeader())).toEqual(['', ''])
  })
})

describe('LeaderElector', () => {
  test('explain says why a LeaderElector leads or does not', async () => {
    const { leader, standby } = await pair()
    expect(leader.elector.explain()).toMatchObject({ phase: 'leading', isLeader: true, term: 1, identity: 'pod-a' })
    expect(standby.elector.explain().summary).toMatch(/^On standby: "pod-a" holds "default\/my-app" in term 1\./)
  })

  test('stepDown ends the work, hands over the lease, and keeps the replica out for one lease', async () => {
    const { clock, leader, standby } = await pair()
    let settled = false
    const down = leader.elector.stepDown().then(() => (settled = true))
    expect(leader.elector.isLeader()).toBe(false)
    await clock.advance(retryMs * 2)
    await down
    expect(settled).toBe(true)
    expect(leader.callbackCalls).toEqual(['leader pod-a', 'started 1', 'work ends', 'stopped', 'leader pod-b'])
    expect(standby.elector.isLeader()).toBe(true)
    standby.abort()
    await clock.advance(leaseMs - 3 * retryMs)
    expect(leader.elector.isLeader()).toBe(false)
    expect(leader.elector.explain().summary).toMatch(/^Stays out of "default\/my-app"/)
    await clock.advance(4 * retryMs)
    expect(leader.elector.isLeader()).toBe(true)
    expect(leader.leadership()?.term).toBe(3)
  })

  test.each([0, 1, 2, 3, 4, 5, 6, 7])(
    'a replica that stepped down reports the next leader, even when it must poll (%i)',
    async (chances) => {
      const clock = fakeClock()
      for (let drawn = 0; drawn < chances; drawn++) clock.random()
      const memory = memoryStore({ clock })
      const leader = start(clock, memory, 'pod-a', { watch: false })
      await clock.advance(100)
      const standby = start(clock, memory, 'pod-b', { watch: false })
      await clock.advance(5_000)
      void leader.elector.stepDown({ cooldownMs: 600_000 })
      await clock.advance(120_000)
      expect(standby.elector.isLeader()).toBe(true)
      expect(leaders(leader)).toEqual(['pod-a', 'pod-b'])
      expect(agrees(leader)).toBe(true)
      standby.abort()
      await clock.advance(60_000)
      expect(leader.elector.explain().summary).toMatch(/^Stays out of/)
      expect(leaders(leader)).toEqual(['pod-a', 'pod-b', ''])
      expect(agrees(leader)).toBe(true)
    },
  )

  test('stepDown rejects a negative cooldownMs, and ends only a run with once: true', async () => {
    const { clock, leader } = await pair()
    await Promise.all([leader.elector.stepDown({ cooldownMs: 0 }), clock.advance(100)])
    expect(leader.run.state).toBe('pending')
    await expect(leader.elector.stepDown({ cooldownMs: -1 })).rejects.toThrow(/Option "cooldownMs" is -1/)
    const { elector, run, ...once } = lone({ once: true })
    await once.clock.advance(0)
    await Promise.all([elector.stepDown(), once.clock.advance(100)])
    expect(run.state).toBe('resolved')
  })
})
