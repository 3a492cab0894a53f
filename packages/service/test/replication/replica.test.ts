/** Tests of the active replica among several, in virtual time. The randomized tests are in the tier proof. */
import { memoryStore, type LeaseStore } from 'tenure'
import { fakeClock } from '@tenure/testing'
import { describe, expect, test } from 'vitest'
import type { ActiveReplica } from '../../src/replication/active-replica.ts'
import type { Loaded } from '../../src/storage/storage.ts'
import { batchAfter, read } from '../storage/data-directories.ts'
import { MemoryStorage } from '../storage/memory-storage.ts'
import { RolledBack } from '../storage/rolled-back-storage.ts'
import { activeStore } from '../../src/storage/active-store.ts'
import { campaign, groupsOf, open, unavailable } from './scene.ts'

const held = { groupId: 'jobs', nodeId: 'a', term: 1 }
const { signal } = new AbortController()

/** Makes another replica active, with a head of a higher term. */
async function takeHead(storage: MemoryStorage, term: number): Promise<void> {
  const head = await storage.head()
  expect(await storage.append(head, batchAfter(head, [], { term }))).toBe('done')
}

describe('elections of a replica', () => {
  test('an elected replica swaps the head to its term, loads, and answers, and the others know its address', async () => {
    const { clock, storage, start } = open()
    const one = start('one')
    await clock.advance(10)
    const two = start('two')
    await clock.advance(3_000)
    expect(one.now()).toMatchObject({ kind: 'local', term: 1 })
    expect(await storage.head()).toMatchObject({ term: 1, seq: 1 })
    expect(two.now()).toEqual({ kind: 'remote', term: 1, address: 'https://one.test', replica: 'one' })
    expect(await campaign(groupsOf(one), 'a')).toMatchObject({ granted: true, lease: { term: 1 } })
  })

  test('a new active replica gives every lease its longest promised duration from the moment when it begins to serve', async () => {
    const { clock, start } = open()
    const one = start('one')
    await clock.advance(10)
    const two = start('two')
    await clock.advance(10)
    await campaign(groupsOf(one), 'a')
    await groupsOf(one).renew({ ...held, extendByMs: 20_000 })
    await groupsOf(one).renew({ ...held, extendByMs: 1_000, checkpoint: 'page 7' })
    await clock.advance(15_000)
    await one.stop()
    await clock.advance(10)
    const { lease } = await groupsOf(two).leader('jobs')
    expect(lease).toMatchObject({ nodeId: 'a', term: 1, checkpoint: 'page 7', ended: false })
    expect(lease?.remainingMs).toBeGreaterThan(19_900)
    // The new active replica confirms a plain renewal from memory, as the previous one would have.
    expect(await groupsOf(two).renew({ ...held, extendByMs: 5_000 })).toMatchObject({ granted: true })
  })

  test('a replica does not serve in a term that is not above the term of the head, and tries again', async () => {
    const { clock, storage, events, start } = open()
    await takeHead(storage, 3)
    const stubborn = memoryStore({ clock })
    const one = start('one', { leases: stubborn })
    await clock.advance(20_000)
    expect(events.filter((event) => event === 'one ended superseded')).toHaveLength(3)
    expect(one.now()).toMatchObject({ kind: 'local', term: 4 })
  })

  test.each(['lost', 'unheard', 'late'] as const)(
    'a replica becomes active with another write when its swap of the head was %s',
    async (fault) => {
      const { clock, storage, start } = open()
      storage.faults.push(fault)
      const one = start('one')
      await clock.advance(2_000)
      expect(await storage.head()).toMatchObject({ term: 1 })
      storage.deliver()
      expect(await campaign(groupsOf(one), 'a')).toMatchObject({ granted: true })
    },
  )

  test('a replica retries the swap when a late write of its predecessor intervened', async () => {
    class Late extends MemoryStorage {
      override async history() {
        const before = this.stored
        if (before.seq === 0) this.apply(before, batchAfter(before, [{ id: 'jobs', record: { term: 7 } }]))
        return { incarnation: before.incarnation, isComplete: true }
      }
    }
    const { clock, storage, start } = open(new Late())
    const one = start('one')
    await clock.advance(2_000)
    expect(await storage.head()).toMatchObject({ term: 1, seq: 2 })
    expect(await campaign(groupsOf(one), 'a')).toMatchObject({ granted: true, lease: { term: 8 } })
  })

  test('a replica gives up when another replica swaps the head between its swap and its load', async () => {
    class Overtaken extends MemoryStorage {
      override async load(): Promise<Loaded> {
        if (this.stored.term === 1) await takeHead(this, 2)
        return super.load()
      }
    }
    const { clock, events, start } = open(new Overtaken())
    const one = start('one')
    await clock.advance(100)
    expect(events.slice(0, 2)).toEqual(['one elected', 'one ended fenced'])
    expect(one.now()).toMatchObject({ kind: 'local', term: 3 })
  })

  test('a replica abandons a load that outlasts its term, and renews while it loads', async () => {
    const clocks = { wait: () => Promise.resolve() }
    class Slow extends MemoryStorage {
      override async load(): Promise<Loaded> {
        const { head } = await super.load()
        const pages = async function* () {
          for (let page = 0; page < 20; page += 1) {
            await clocks.wait()
            yield [{ id: `group-${page}`, record: { term: 1 }, seq: 1 }]
          }
        }
        return { head, pages: pages() }
      }
    }
    const { clock, events, start } = open(new Slow())
    clocks.wait = () => new Promise((resolve) => void clock.setTimer(500, resolve))
    const one = start('one')
    await clock.advance(9_000)
    expect(one.now()).toEqual({ kind: 'unknown' })
    await clock.advance(2_000)
    expect(groupsOf(one).groupCount).toBe(20)
    one.terms.observe(9)
    // The next load is abandoned halfway. A partly loaded state is never served.
    await clock.advance(8_000)
    one.terms.observe(8)
    await clock.advance(1_000)
    expect(events).not.toContain('one ended failed')
    expect(one.now()).toEqual({ kind: 'unknown' })
  })
})

describe('the end of an active term', () => {
  test('an active term ends at once when an append is fenced, and the replica campaigns again', async () => {
    const { clock, storage, events, start } = open()
    const one = start('one')
    await clock.advance(10)
    const groups = groupsOf(one)
    await campaign(groups, 'a')
    const waiting = expect(campaign(groups, 'b', { waitMs: 60_000 })).rejects.toMatchObject(unavailable)
    await clock.advance(10)
    await takeHead(storage, 5)
    await expect(groups.resign(held)).rejects.toMatchObject(unavailable)
    await waiting
    expect(events.at(-1)).toBe('one ended fenced')
    expect(() => groups.renew({ ...held, extendByMs: 5_000 })).toThrow(expect.objectContaining(unavailable))
    await clock.advance(15_000)
    expect(one.now()).toMatchObject({ kind: 'local', term: 6 })
    expect(await groupsOf(one).leader('jobs')).toMatchObject({ lease: { nodeId: 'a', term: 1 } })
  })

  test('an active term ends at once when a higher term is seen, but not for a lower one', async () => {
    const { clock, events, start } = open()
    const one = start('one')
    await clock.advance(10)
    const groups = groupsOf(one)
    one.terms.observe(1)
    expect(one.now().kind).toBe('local')
    one.terms.observe(2)
    expect(one.now().kind).toBe('unknown')
    expect(() => groups.leader('jobs')).toThrow(expect.objectContaining(unavailable))
    expect(events.at(-1)).toBe('one ended superseded')
  })

  test('a reported term that neither the storage nor the election knows ends the active term only for a while', async () => {
    const { clock, storage, events, start } = open()
    const one = start('one')
    await clock.advance(10)
    const two = start('two')
    await clock.advance(10)
    expect(one.terms.observe(1e15)).toBe(true)
    expect(two.terms.observe(1e15)).toBe(true)
    expect(one.now().kind).toBe('unknown')
    await clock.advance(10_000)
    expect([one.terms.highest, two.terms.highest]).toEqual([2, 2])
    const [active, follower] = one.now().kind === 'local' ? [one, two] : [two, one]
    expect(active.now()).toMatchObject({ kind: 'local', term: 2 })
    expect(follower.now()).toMatchObject({ kind: 'remote', term: 2 })
    // From now on the replica checks this term and higher ones before it ends its own.
    for (const term of [1e15, 1e15 + 1]) expect(active.terms.observe(term)).toBe(false)
    await clock.advance(10)
    expect(active.now().kind).toBe('local')
    expect(events.filter((event) => event.endsWith('superseded'))).toHaveLength(1)
    // A term that really exists still ends the active term.
    await takeHead(storage, 1e15)
    active.terms.observe(1e15)
    await clock.advance(10)
    expect(active.now().kind).not.toBe('local')
  })

  test('a replica stays inactive until the storage confirms that nobody has the higher term', async () => {
    class Down extends MemoryStorage {
      isDown = false
      override async head() {
        if (this.isDown) throw new Error('down')
        return super.head()
      }
    }
    const storage = new Down()
    const { clock, start } = open(storage)
    const one = start('one')
    await clock.advance(10)
    storage.isDown = true
    one.terms.observe(7)
    await clock.advance(20_000)
    expect(one.now().kind).toBe('unknown')
    storage.isDown = false
    await clock.advance(20_000)
    expect(one.now().kind).toBe('local')
  })

  test('the end of an active term rejects every call that waits for the storage and emits no change', async () => {
    const { clock, storage, start } = open()
    const one = start('one')
    await clock.advance(10)
    const groups = groupsOf(one)
    const heard: string[] = []
    groups.listen({ wantsRenewals: () => true, onChange: ({ type }) => void heard.push(type) })
    let release = () => {}
    storage.gate = new Promise((resolve) => (release = resolve))
    const granting = expect(campaign(groups, 'a')).rejects.toMatchObject(unavailable)
    const checking = expect(groups.check()).rejects.toMatchObject(unavailable)
    await clock.advance(10)
    const queued = expect(campaign(groups, 'b', { groupId: 'other' })).rejects.toMatchObject(unavailable)
    await clock.advance(10)
    one.terms.observe(2)
    await Promise.all([granting, checking, queued])
    release()
    await clock.advance(10)
    // The append in flight takes effect. The one that had not been sent does not.
    expect((await read(storage)).map(({ id }) => id)).toEqual(['jobs'])
    expect(heard).toEqual([])
    expect(groups.textsOf('jobs', 1)).toBeUndefined()
  })

  test('an active term ends when its lease has expired by the clock, even before any timer has run', async () => {
    const storage = new MemoryStorage()
    const clock = fakeClock()
    let stalledMs = 0
    const stalling = { ...clock, monotonicMs: () => clock.monotonicMs() + stalledMs }
    const { start } = open(storage)
    const one = start('one', { clock: stalling, leases: memoryStore({ clock: stalling }) })
    await clock.advance(10)
    const groups = groupsOf(one)
    await campaign(groups, 'a')
    stalledMs = 2_500
    expect(one.now().kind).toBe('unknown')
    for (const ask of [
      () => groups.renew({ ...held, extendByMs: 5_000 }),
      () => groups.renew({ ...held, nodeId: 'b', extendByMs: 5_000 }),
      () => groups.leader('jobs'),
      () => groups.leader('nobody asked for this one'),
      () => groups.resign(held),
      () => groups.heartbeat('jobs', 'a', '{}'),
      () => groups.reportWatches([['jobs', 'a']]),
      () => campaign(groups, 'b'),
      () => groups.members('jobs'),
      () => groups.group('jobs'),
      () => groups.groups({ after: undefined, limit: 10 }),
      () => groups.check(),
    ]) {
      await expect((async () => ask())()).rejects.toMatchObject(unavailable)
    }
    expect(groups.textsOf('jobs', 1)).toBeUndefined()
    await clock.advance(10_000)
    await one.stop()
  })
})

describe('clean stops', () => {
  test('a clean stop answers pending writes, rejects waiting campaigns, and hands over at once', async () => {
    const { clock, storage, start } = open()
    const one = start('one')
    await clock.advance(10)
    const two = start('two')
    await clock.advance(10)
    const groups = groupsOf(one)
    await campaign(groups, 'z', { groupId: 'other' })
    let release = () => {}
    storage.gate = new Promise((resolve) => (release = resolve))
    const granting = campaign(groups, 'a')
    const waiting = expect(campaign(groups, 'b', { groupId: 'other', waitMs: 9_000 })).rejects.toMatchObject(
      unavailable,
    )
    await clock.advance(10)
    const stopping = one.stop()
    await waiting
    expect(one.now().kind).toBe('unknown')
    await expect(campaign(groups, 'c')).rejects.toMatchObject(unavailable)
    release()
    expect(await granting).toMatchObject({ granted: true, lease: { nodeId: 'a', term: 1 } })
    await clock.advance(1)
    await stopping
    await clock.advance(20)
    expect(await groupsOf(two).leader('jobs')).toMatchObject({ lease: { nodeId: 'a', term: 1, ended: false } })
  })

  test('stop may be called repeatedly and at any time', async () => {
    const { clock, start } = open()
    const one = start('one')
    await Promise.all([one.stop(), one.stop()])
    await clock.advance(10)
    expect(one.now()).toEqual({ kind: 'unknown' })
  })
})

describe('the known active replica', () => {
  test('now() returns the same object while nothing changes, and changed() resolves when something does', async () => {
    const { clock, start } = open()
    const one = start('one')
    await clock.advance(10)
    const two = start('two')
    await clock.advance(100)
    const known = two.now()
    const seen: ActiveReplica[] = []
    const wait = async () => {
      await two.changed(known, signal)
      seen.push(two.now())
    }
    const waits = [wait(), wait()]
    await clock.advance(10_000)
    expect(two.now()).toBe(known)
    expect(seen).toEqual([])
    await one.stop()
    await clock.advance(50)
    await Promise.all(waits)
    await two.changed(known, signal)
    const gone = new AbortController()
    const never = two.changed(two.now(), gone.signal)
    gone.abort()
    await never
    expect(two.now()).toMatchObject({ kind: 'local', term: 2 })
  })

  test('changed() resolves for every waiter as soon as any call notices the change', async () => {
    const { clock, start } = open()
    let stalledMs = 0
    const one = start('one', { clock: { ...clock, monotonicMs: () => clock.monotonicMs() + stalledMs } })
    await clock.advance(10)
    const changed = one.changed(one.now(), signal).then(() => 'changed')
    // No timer of this process has run yet.
    stalledMs = 60_000
    expect(one.now().kind).toBe('unknown')
    for (let turns = 0; turns < 5; turns += 1) await Promise.resolve()
    expect(await Promise.race([changed, Promise.resolve('unheard')])).toBe('changed')
  })

  test('the active replica is unknown once a higher term was seen', async () => {
    const { clock, start } = open()
    start('one')
    await clock.advance(10)
    const two = start('two')
    await clock.advance(10)
    expect(two.now().kind).toBe('remote')
    two.terms.observe(2)
    expect(two.now()).toEqual({ kind: 'unknown' })
  })

  test('a follower finds the active replica after a restore to lower terms', async () => {
    const storage = new RolledBack()
    const { clock, start } = open(storage)
    storage.copy()
    await takeHead(storage, 40)
    // The leases are lost together with everything else.
    const leases = [memoryStore({ clock }), memoryStore({ clock })] as const
    let current: LeaseStore = leases[0]
    const restored: LeaseStore = {
      expiry: leases[0].expiry,
      terms: leases[0].terms,
      acquire: (...call) => current.acquire(...call),
      renew: (...call) => current.renew(...call),
      release: (...call) => current.release(...call),
      read: (...call) => current.read(...call),
    }
    const one = start('one', { leases: activeStore(restored, storage) })
    await clock.advance(10_000)
    const two = start('two', { leases: activeStore(restored, storage) })
    await clock.advance(10_000)
    expect(two.now()).toMatchObject({ kind: 'remote', term: 41 })
    void one.stop()
    storage.rollBack()
    current = leases[1]
    const three = start('three', { leases: activeStore(restored, storage) })
    await clock.advance(30_000)
    expect(three.now()).toMatchObject({ kind: 'local', term: 1 })
    expect(two.now()).toMatchObject({ kind: 'remote', term: 1, replica: 'three' })
  })
})
