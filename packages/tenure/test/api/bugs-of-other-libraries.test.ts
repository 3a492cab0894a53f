import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createElections, Elector, lead, LeaderElector, Manager } from '../../src/index.ts'
import type { ElectionEvent, ElectorOptions, Leadership, LeaseStore } from '../../src/index.ts'
import { fileStore } from '../../src/stores/file/index.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { memoryTtlStorage } from '../../src/store-kit/memory-ttl-storage.ts'
import { fakeClock, type FakeClock } from '../../../testing/src/index.ts'
import { cutOff, faultyStore, type FaultyStore } from '../faulty-store.ts'
import { call, claim, follow, never, newCall } from '../promise-outcome.ts'
import { stallable } from '../stallable-clock.ts'

// Each test shows that Tenure does not have a bug that was found in a widely used library.

function candidate(
  clock: FakeClock,
  memory: LeaseStore,
  identity: string,
  { prepare, ...more }: Partial<ElectorOptions> & { prepare?: (store: FaultyStore) => void } = {},
) {
  const store = faultyStore(memory, clock)
  prepare?.(store)
  const events: ElectionEvent[] = []
  const observer = { onEvent: (event: ElectionEvent) => void events.push(event) }
  const elector = new Elector({ store, election: 'e', identity, clock, observer, ...more })
  const terms = () => events.flatMap((event) => (event.type === 'elected' ? [event.term] : []))
  elector.start()
  return { store, elector, events, terms }
}

function scene(identities: string[] = ['me'], more: Partial<ElectorOptions> = {}) {
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  const candidates = identities.map((identity) => candidate(clock, memory, identity, more))
  const [first, second] = candidates
  if (!first) throw new Error('no candidate')
  return { clock, memory, candidates, first, second: second ?? first }
}

function reconnect(store: FaultyStore): void {
  Object.assign(store, { fault: () => undefined, silentWatch: false })
}

/** Checks every 100 ms that at most one candidate leads, and finally returns the leaders. */
async function neverBoth(clock: FakeClock, candidates: { elector: Elector }[], ms: number): Promise<string[]> {
  const leaders = () => candidates.filter(({ elector }) => elector.isLeader()).map(({ elector }) => elector.identity)
  for (let passedMs = 0; passedMs < ms; passedMs += 100) {
    await clock.advance(100)
    expect(leaders().length).toBeLessThanOrEqual(1)
  }
  return leaders()
}

describe('Kubernetes electors on npm', () => {
  test('a follower keeps campaigning after any number of failed tries', async () => {
    const clock = fakeClock()
    const prepare = (store: FaultyStore) => Object.assign(store, { fault: () => 'error' })
    const follower = candidate(clock, memoryStore({ clock }), 'follower', { prepare })
    await clock.advance(3_600_000)
    expect(follower.store.calls.length).toBeGreaterThan(1_000)
    reconnect(follower.store)
    await clock.advance(3_000)
    expect(follower.elector.isLeader()).toBe(true)
  })

  test('a follower takes over when the leader is killed or releases', async () => {
    for (const end of ['killed', 'released']) {
      const { clock, first, second } = scene(['a', 'b'])
      await clock.advance(1_000)
      if (end === 'killed') cutOff(first.store)
      else await first.elector.stop()
      await clock.advance(16_000)
      expect(second.elector.isLeader(), end).toBe(true)
    }
  })

  test('a silent watch causes neither a loss nor two leaders, because renewal does not depend on events', async () => {
    const clock = fakeClock()
    const memory = memoryStore({ clock })
    const prepare = (store: FaultyStore) => void (store.silentWatch = true)
    const candidates = ['a', 'b'].map((identity) => candidate(clock, memory, identity, { prepare }))
    expect(await neverBoth(clock, candidates, 300_000)).toEqual(['a'])
    expect(candidates.map(({ terms }) => terms())).toEqual([[1], []])
  })

  test('the record contains the lease duration, so that others know how long to wait', async () => {
    const { clock, memory } = scene(['me'], { leaseDurationMs: 7_500 })
    await clock.advance(0)
    expect((await memory.read('e', call))?.leaseDurationMs).toBe(7_500)
  })

  test('isLeader is false and the signal is aborted as soon as stop is called', async () => {
    const { first } = scene()
    const { signal } = await first.elector.waitForLeadership()
    const stopped = first.elector.stop()
    expect(first.elector.isLeader(), 'at once').toBe(false)
    expect(signal.aborted).toBe(true)
    await stopped
    expect(first.elector.isLeader()).toBe(false)
    expect(first.elector.explain()).toMatchObject({ phase: 'stopped', isLeader: false, term: undefined })
  })

  test('no candidate leads when the store of each candidate never answers', async () => {
    for (const fault of ['error', 'request-lost', 'reply-lost'] as const) {
      const clock = fakeClock()
      const prepare = (store: FaultyStore) => Object.assign(store, { fault: () => fault, silentWatch: true })
      const candidates = ['a', 'b', 'c'].map((id) => candidate(clock, memoryStore({ clock }), id, { prepare }))
      expect(await neverBoth(clock, candidates, 60_000)).toEqual([])
      expect(candidates.map(({ terms }) => terms())).toEqual([[], [], []])
    }
  })
})

describe('client-go', () => {
  test("a release that arrives late cannot erase the successor's lease", async () => {
    const clock = fakeClock()
    const memory = memoryStore({ clock })
    let deliver: (() => Promise<unknown>) | undefined
    const slow: LeaseStore = {
      ...memory,
      release(claim) {
        deliver ??= () => memory.release(claim, call)
        return never
      },
    }
    const former = new Elector({ store: slow, election: 'e', identity: 'former', clock })
    former.start()
    await clock.advance(0)
    const stopped = follow(former.stop())
    await clock.advance(15_000)
    expect(stopped.state).toBe('resolved')
    const successor = candidate(clock, memory, 'successor')
    await clock.advance(1_000)
    expect(successor.elector.isLeader()).toBe(true)
    expect(await deliver?.()).toMatchObject({ ok: false, highestTerm: 2 })
    expect(await memory.read('e', call)).toMatchObject({ holder: 'successor', released: false })
    await clock.advance(60_000)
    expect(successor.terms()).toEqual([2])
    expect(successor.elector.isLeader()).toBe(true)
  })

  test('a release by another process with the same identity cannot end the lease', async () => {
    const { clock, memory, first, second } = scene(['same', 'same'])
    await clock.advance(1_000)
    expect([first.elector.isLeader(), second.elector.isLeader()]).toEqual([true, false])
    await second.elector.stop()
    await clock.advance(60_000)
    expect(first.elector.isLeader()).toBe(true)
    expect(await memory.read('e', call)).toMatchObject({ term: 1, released: false })
  })

  test('a lease of 3 s with a deadline of 2.9 s and retries every 2.4 s is rejected because it allows two leaders', () => {
    const options = { store: memoryStore(), leaseName: 'l', leaseNamespace: 'n', identity: 'me' }
    const timings = { leaseDurationMs: 3_000, renewDeadlineMs: 2_900, retryPeriodMs: 2_400 }
    const callbacks = { onStartedLeading: () => undefined }
    expect(() => new LeaderElector({ ...options, ...timings, callbacks })).toThrow(/two processes could lead at once/)
  })

  test('a lease of 1.9 s is not rounded down, so a healthy leader keeps it', async () => {
    const { clock, memory, candidates } = scene(['a', 'b'], { leaseDurationMs: 1_900 })
    expect(await neverBoth(clock, candidates, 60_000)).toEqual(['a'])
    expect((await memory.read('e', call))?.leaseDurationMs).toBe(1_900)
    expect(candidates.map(({ terms }) => terms())).toEqual([[1], []])
  })

  test('isLeader is false after the lease has expired, whatever the last observed record says', async () => {
    const { clock, first } = scene()
    await clock.advance(1_000)
    cutOff(first.store)
    await clock.advance(14_000)
    expect(first.elector.isLeader()).toBe(false)
    expect(first.elector.explain()).toMatchObject({ isLeader: false, term: undefined })
  })

  test('an elector campaigns again after a loss', async () => {
    const { clock, first } = scene()
    await clock.advance(0)
    cutOff(first.store)
    await clock.advance(30_000)
    reconnect(first.store)
    await clock.advance(20_000)
    expect(first.terms()).toEqual([1, 2])
    expect(first.elector.isLeader()).toBe(true)
  })

  test('the lease is released only after the work has ended', async () => {
    const { clock, memory, first, second } = scene(['a', 'b'])
    await clock.advance(0)
    let finish = (): void => undefined
    const leadership = await first.elector.waitForLeadership()
    leadership.waitUntil(new Promise<void>((resolve) => (finish = resolve)))
    const stopped = follow(first.elector.stop())
    await clock.advance(25_000)
    expect(await memory.read('e', call)).toMatchObject({ holder: 'a', released: false })
    expect(second.elector.isLeader()).toBe(false)
    finish()
    await clock.advance(100)
    expect(stopped.state).toBe('resolved')
    expect(second.elector.isLeader()).toBe(true)
  })

  test('a standby takes over a released lease at once, not after a retry period', async () => {
    const { clock, first, second } = scene(['a', 'b'])
    await clock.advance(7_777)
    await first.elector.stop()
    await clock.advance(15_000 / 2_000)
    expect(second.elector.isLeader()).toBe(true)
  })
})

describe('@kubernetes/client-node', () => {
  test('a call that hangs is abandoned in bounded time, and the next one is sent', async () => {
    for (const fault of ['request-lost', 'reply-lost'] as const) {
      const { clock, first } = scene()
      first.store.fault = () => (first.store.calls.length % 2 === 1 ? fault : undefined)
      await clock.advance(120_000)
      expect(first.store.calls.length, fault).toBeGreaterThan(10)
      expect(first.elector.isLeader(), fault).toBe(true)
      expect(first.store.mostOpen).toBe(1)
    }
  })

  test('a silent watch does not delay a takeover beyond the lease', async () => {
    const clock = fakeClock()
    const memory = memoryStore({ clock })
    const leader = candidate(clock, memory, 'leader')
    await clock.advance(100)
    const standby = candidate(clock, memory, 'standby', { prepare: (store) => void (store.silentWatch = true) })
    await clock.advance(59_900)
    cutOff(leader.store)
    await clock.advance(15_000 + 75)
    expect(standby.elector.isLeader()).toBe(true)
  })
})

describe('etcd3', () => {
  test('a lost lease is reported before its duration has passed, not after twice that time', async () => {
    const { clock, first } = scene()
    const { signal } = await first.elector.waitForLeadership()
    cutOff(first.store)
    await clock.advance(10_000)
    expect(signal.reason).toMatchObject({ reason: 'expired' })
  })

  test('the signal of the work aborts when the lease is lost', async () => {
    const clock = fakeClock()
    const store = faultyStore(memoryStore({ clock }), clock)
    let toldAtMs = Infinity
    const work = ({ signal }: Leadership) =>
      new Promise<void>((resolve) =>
        signal.addEventListener('abort', () => {
          toldAtMs = clock.monotonicMs()
          resolve()
        }),
      )
    const outcome = follow(lead({ store, election: 'e', clock, onLoss: 'throw' }, work))
    await clock.advance(0)
    cutOff(store)
    await clock.advance(10_000)
    expect(toldAtMs).toBe(10_000)
    expect(outcome).toMatchObject({ state: 'rejected', error: { code: 'LEADERSHIP_LOST' } })
  })

  test('a store that lost its record does not allow a second leader', async () => {
    const { clock, memory, candidates } = scene(['a', 'b'])
    await clock.advance(7_000)
    memory.delete('e')
    expect(await neverBoth(clock, candidates, 40_000)).toHaveLength(1)
    expect(Math.max(...candidates.flatMap(({ terms }) => terms()))).toBe(2)
  })
})

describe('redlock and redlock-universal', () => {
  test('leadership ends in time when the store hangs, and pending calls settle', async () => {
    const { clock, first } = scene()
    const { signal } = await first.elector.waitForLeadership()
    await clock.advance(5_500)
    cutOff(first.store)
    await clock.advance(9_499)
    expect(signal.aborted).toBe(false)
    await clock.advance(1)
    expect(signal.aborted, 'the last renewal was sent 10 s ago').toBe(true)
    const stopped = follow(first.elector.stop())
    await clock.advance(30_000)
    expect(stopped.state).toBe('resolved')
    expect(clock.timers).toBe(0)
  })

  test('a grant whose answer arrives after it has expired is never used', async () => {
    const clock = fakeClock()
    const memory = memoryStore({ clock })
    const slow = candidate(clock, memory, 'slow', {
      prepare: (store) =>
        Object.assign(store, {
          fault: (verb: string) => (verb === 'acquire' ? 'reply-lost' : 'error'),
          silentWatch: true,
        }),
    })
    await clock.advance(11_000)
    expect(await memory.read('e', call), 'the lease was granted').toMatchObject({
      holder: 'slow',
      term: 1,
      released: false,
    })
    reconnect(slow.store)
    await clock.advance(10_000)
    expect(slow.terms(), 'only the next grant leads').toEqual([2])
  })
})

describe('redis-semaphore', () => {
  test('leadership ends in time when a renewal hangs', async () => {
    const { clock, first } = scene()
    const { signal } = await first.elector.waitForLeadership()
    first.store.fault = (verb) => (verb === 'renew' ? 'request-lost' : undefined)
    await clock.advance(9_999)
    expect(signal.aborted).toBe(false)
    await clock.advance(1)
    expect(signal.aborted).toBe(true)
  })

  test('isLeader is false right after an event-loop stall, before any timer has fired', async () => {
    const clock = fakeClock()
    const stalling = stallable(clock)
    const store = memoryStore({ clock })
    const elector = new Elector({ store, election: 'e', clock: stalling })
    elector.start()
    const leadership = await elector.waitForLeadership()
    stalling.stall()
    await clock.advance(9_999)
    expect(elector.isLeader()).toBe(true)
    await clock.advance(1)
    expect(elector.isLeader()).toBe(false)
    expect(leadership.isLeader()).toBe(false)
    expect(() => leadership.throwIfLost()).toThrow(expect.objectContaining({ code: 'LEADERSHIP_LOST' }))
    expect(leadership.remainingMs()).toBe(0)
    expect(leadership.signal.aborted).toBe(true)
    stalling.resume()
    await clock.advance(0)
  })
})

test('safe-redis-leader: one store error does not end renewal', async () => {
  const { clock, first } = scene()
  let failed = false
  first.store.fault = (verb) => {
    if (failed || verb !== 'renew') return undefined
    failed = true
    return 'error'
  }
  await clock.advance(120_000)
  expect(failed).toBe(true)
  expect(first.terms()).toEqual([1])
  expect(first.elector.isLeader()).toBe(true)
})

test('mongo-leader: a single healthy leader is never revoked', async () => {
  const { clock, first } = scene()
  await clock.advance(2 * 3_600_000)
  expect(first.elector.isLeader()).toBe(true)
  expect(first.terms()).toEqual([1])
  expect(first.events.filter(({ type }) => !['new-leader', 'elected', 'renewed'].includes(type))).toEqual([])
})

describe('proper-lockfile', () => {
  test('one of 16 candidates takes over a stale lease', async () => {
    const clock = fakeClock()
    const memory = memoryStore({ clock })
    await memory.acquire(claim({ holder: 'dead' }), call)
    const candidates = Array.from({ length: 16 }, (_, number) => candidate(clock, memory, `n${number}`))
    expect(await neverBoth(clock, candidates, 20_000)).toHaveLength(1)
    expect(candidates.flatMap(({ terms }) => terms())).toEqual([2])
  })

  test('one of 16 simultaneous claims on a stale lease in a file is granted', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'tenure-peers-'))
    const clock = fakeClock()
    const stores = Array.from({ length: 17 }, () => fileStore({ directory, clock }))
    onTestFinished(async () => {
      for (const store of stores) await store.close?.()
      rmSync(directory, { recursive: true })
    })
    await stores[16]?.acquire(claim({ holder: 'dead' }), call)
    await clock.advance(15_000)
    const claims = stores
      .slice(0, 16)
      .map((store, number) =>
        store.acquire(claim({ holder: `n${number}`, attempt: `a${number}`, afterTerm: 1 }), newCall()),
      )
    const outcomes = follow(Promise.all(claims))
    // The stores wait for the file lock on this virtual clock.
    while (outcomes.state === 'pending') await clock.advance(1)
    expect(outcomes.value?.filter(({ ok }) => ok)).toHaveLength(1)
  })
})

test('broadcast-channel: only the successor leads after a stall of the leader', async () => {
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  const stalling = stallable(clock)
  const stalled = candidate(clock, memory, 'stalled', { clock: stalling })
  await clock.advance(1_000)
  const successor = candidate(clock, memory, 'successor')
  stalling.stall()
  expect(await neverBoth(clock, [stalled, successor], 30_000)).toEqual(['successor'])
  stalling.resume()
  expect(await neverBoth(clock, [stalled, successor], 60_000)).toEqual(['successor'])
  expect([stalled.terms(), successor.terms()]).toEqual([[1], [2]])
})

describe('voedger elections', () => {
  test('the signal aborts before the key is deleted', async () => {
    const clock = fakeClock()
    const inner = memoryTtlStorage<string, string>({ clock })
    const seen: (boolean | undefined)[] = []
    const storage = {
      ...inner,
      compareAndDelete: (key: string, value: string) => {
        seen.push(held?.aborted)
        return inner.compareAndDelete(key, value)
      },
    }
    const elections = createElections({ storage, clock })
    const held = await elections.acquireLeadership('k', 'v', { durationMs: 5_000 })
    await elections.releaseLeadership('k')
    expect(seen).toEqual([true])
  })

  test('the signal aborts in time when the storage hangs', async () => {
    const clock = fakeClock()
    const inner = memoryTtlStorage<string, string>({ clock })
    const storage = { ...inner, compareAndSwap: () => never, compareAndDelete: () => never }
    const elections = createElections({ storage, clock })
    const held = await elections.acquireLeadership('k', 'v', { durationMs: 5_000 })
    await clock.advance(4_000)
    expect(held?.aborted).toBe(true)
  })

  test('a restarted process with its old identity waits for its old lease, then gets a new term', async () => {
    const { clock, memory, first } = scene(['node-1'])
    await clock.advance(1_000)
    cutOff(first.store)
    const restarted = candidate(clock, memory, 'node-1')
    await clock.advance(13_999)
    expect(restarted.elector.isLeader()).toBe(false)
    await clock.advance(1 + 75)
    expect(restarted.elector.isLeader()).toBe(true)
    expect(restarted.terms()).toEqual([2])
    expect(first.elector.isLeader()).toBe(false)
  })
})

describe('multicluster-leader-election', () => {
  test('stop marks the record as released', async () => {
    const { clock, memory, first } = scene()
    await clock.advance(0)
    await first.elector.stop()
    expect((await memory.read('e', call))?.released).toBe(true)
  })

  test('wall clocks that differ or jump do not affect leadership', async () => {
    const clock = fakeClock()
    const memory = memoryStore({ clock })
    const ahead = { ...clock, wallMs: () => clock.wallMs() + 3_600_000 }
    const candidates = [candidate(clock, memory, 'a'), candidate(clock, memory, 'b', { clock: ahead })]
    for (const jumpMs of [3_600_000, -7_200_000, 86_400_000]) {
      clock.setWall(clock.wallMs() + jumpMs)
      expect(await neverBoth(clock, candidates, 30_000)).toEqual(['a'])
    }
    expect(candidates.map(({ terms }) => terms())).toEqual([[1], []])
  })

  test("a candidate waits for the holder's duration, not its own", async () => {
    const clock = fakeClock()
    const memory = memoryStore({ clock })
    const long = candidate(clock, memory, 'long', { leaseDurationMs: 60_000 })
    await clock.advance(0)
    const short = candidate(clock, memory, 'short', { leaseDurationMs: 1_000 })
    expect(await neverBoth(clock, [long, short], 30_000)).toEqual(['long'])
    cutOff(long.store)
    expect(await neverBoth(clock, [long, short], 49_000)).toEqual([])
    expect(await neverBoth(clock, [long, short], 2_000)).toEqual(['short'])
  })

  test('failover takes one lease duration, not three', async () => {
    const { clock, first, second } = scene(['a', 'b'])
    await clock.advance(5_000)
    cutOff(first.store)
    await clock.advance(15_000 + 75)
    expect(second.elector.isLeader()).toBe(true)
  })

  test('losing a race is not reported as a store error', async () => {
    const { clock, candidates } = scene(['a', 'b', 'c', 'd'])
    await clock.advance(1_000)
    await candidates[0]?.elector.stop()
    await clock.advance(60_000)
    const errors = candidates.flatMap(({ events }) => events.filter(({ type }) => type === 'error'))
    expect(errors).toEqual([])
  })
})

test('a Manager that cannot renew gives up before its lease ends and reports the error', async () => {
  const clock = fakeClock()
  const store = faultyStore(memoryStore({ clock }), clock)
  const manager = new Manager({ store, election: 'e', clock })
  const errors: unknown[] = []
  manager.onError = (error) => void errors.push(error)
  const lease = manager.start()
  const { signal } = await lease.waitForLeadership()
  cutOff(store)
  await clock.advance(10_000)
  expect(signal.aborted).toBe(true)
  expect(errors[0]).toMatchObject({ code: 'TIMEOUT', retryable: true })
})
