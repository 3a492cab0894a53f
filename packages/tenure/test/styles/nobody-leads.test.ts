import { describe, expect, test } from 'vitest'
import type { StoreElectorOptions } from '../../src/index.ts'
import { memoryStore } from '../../src/stores/memory.ts'
import { fakeClock } from '../../src/testing/index.ts'
import { cutOff, type Verb } from '../faulty-store.ts'
import { stallable } from '../stallable-clock.ts'
import { election, lone, start, type Replica } from './replicas.ts'

const leaseMs = 15_000
const retryMs = 2_000

/** A leader and a standby that polls, so that the standby sees what its own calls show and nothing else. */
async function pair(more: Partial<StoreElectorOptions> = {}) {
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  const leader = start(clock, memory, 'pod-a')
  await clock.advance(0)
  const standby = start(clock, memory, 'pod-b', { watch: false, ...more })
  await clock.advance(4_000)
  expect(standby.told).toEqual(['leader pod-a'])
  return { clock, memory, leader, standby }
}

const fails = (...verbs: Verb[]) => ({
  fault: (verb: Verb) => (verbs.includes(verb) ? ('error' as const) : undefined),
})
const leaders = ({ told }: Replica) => told.filter((text) => text.startsWith('leader ')).map((text) => text.slice(7))
/** What is told is what can be asked for. */
const agrees = (replica: Replica) => leaders(replica).at(-1) === replica.elector.getLeader()

describe('once the lease seen has run out, nobody leads', () => {
  test('so a standby that cannot reach its store says after one lease, once, and names the leader again', async () => {
    const { clock, leader, standby } = await pair()
    // The first poll after the leader's first renewal.
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
    expect(leader.leadership()?.term, 'the leader has led all the time').toBe(1)
    expect(leaders(standby)).toEqual(['pod-a', '', 'pod-a'])
    expect(agrees(standby)).toBe(true)
  })

  test('so says a standby that can read and may not write, while a dead leader’s lease stays in the store', async () => {
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

  test('however long the leader leads, nobody is told so before', async () => {
    const { clock, standby } = await pair()
    for (let round = 0; round < 1_000; round++) {
      await clock.advance(1_000)
      expect(agrees(standby)).toBe(true)
    }
    expect(leaders(standby)).toEqual(['pod-a'])
  })

  test('getLeader() asks the clock, also if no timer could run meanwhile', async () => {
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

  test('a leader that lost its own lease says so when others may lead', async () => {
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

describe('a lease that was given back', () => {
  test('is followed by the next leader’s name, with nothing in between', async () => {
    const { clock, leader, standby } = await pair()
    leader.abort()
    await clock.advance(60_000)
    expect(leaders(standby)).toEqual(['pod-a', 'pod-b'])
  })

  test('is said to be nobody’s if nobody takes it for three retry periods, where it must poll', async () => {
    const { clock, leader, standby } = await pair()
    Object.assign(standby.store, fails('acquire'))
    leader.abort()
    // It learns of it at its next poll.
    while (standby.elector.getLeader() !== '') await clock.advance(1)
    await clock.advance(3 * retryMs - 1)
    expect(leaders(standby)).toEqual(['pod-a'])
    await clock.advance(1)
    expect(leaders(standby)).toEqual(['pod-a', ''])
    await clock.advance(60_000)
    expect(leaders(standby)).toEqual(['pod-a', ''])
  })

  test('by a replica that stops tells that replica nothing more, and leaves no timer', async () => {
    const { clock, leader, standby } = await pair()
    leader.abort()
    standby.abort()
    await clock.advance(1_000)
    const told = [leader, standby].map((replica) => [...replica.told])
    expect(clock.timers).toBe(0)
    await clock.advance(60_000)
    expect([leader, standby].map((replica) => replica.told)).toEqual(told)
    expect([leader, standby].map(({ elector }) => elector.getLeader())).toEqual(['', ''])
  })
})

describe('LeaderElector', () => {
  test('explains why it leads or does not', async () => {
    const { leader, standby } = await pair()
    expect(leader.elector.explain()).toMatchObject({ phase: 'leading', isLeader: true, term: 1, identity: 'pod-a' })
    expect(standby.elector.explain().summary).toMatch(/^On standby: "pod-a" holds "default\/my-app" in term 1\./)
  })

  test('steps down: the work ends, the lease passes on, and it stays out for a lease', async () => {
    const { clock, leader, standby } = await pair()
    let settled = false
    const down = leader.elector.stepDown().then(() => (settled = true))
    expect(leader.elector.isLeader()).toBe(false)
    await clock.advance(retryMs * 2)
    await down
    expect(settled).toBe(true)
    expect(leader.told).toEqual(['leader pod-a', 'started 1', 'work ends', 'stopped', 'leader pod-b'])
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
    'that stepped down hears who leads, even where it must poll (%i)',
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

  test('steps down for as long as it is told, and with once its run ends', async () => {
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
