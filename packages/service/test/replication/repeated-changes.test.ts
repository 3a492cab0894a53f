/** Tests that a watcher sees each change once and in order when its first read races with a write. */
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Clock } from 'tenure'
import { systemClock } from '../../src/common/clock.ts'
import { LocalGroups } from '../../src/groups/local-groups.ts'
import { ServingClock } from '../../src/groups/serving-clock.ts'
import type { Appended, Batch, StorageHead } from '../../src/storage/storage.ts'
import { takeSnapshot } from '../../src/watch/snapshot.ts'
import { MemoryStorage } from '../storage/memory-storage.ts'
import { EventSource, type Told } from '../watch/event-source.ts'
import { serveGroups } from './serve-replica.ts'
import { claimOf, here, openCluster, openPair, type Replica } from './test-cluster.ts'

/** A promise that the test resolves. */
function newGate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => (open = resolve))
  return { opened, open: () => open() }
}

/** A clock that the test advances. It may also advance by itself with each read. */
function manualClock() {
  const time = { nowMs: 0, perReadMs: 0 }
  const timers = new Set<{ atMs: number; callback: () => void }>()
  const clock: Clock = {
    ...systemClock,
    monotonicMs() {
      const { nowMs } = time
      time.nowMs += time.perReadMs
      return nowMs
    },
    setTimer(delayMs, callback) {
      const timer = { atMs: time.nowMs + delayMs, callback }
      timers.add(timer)
      return { cancel: () => void timers.delete(timer) }
    },
  }
  const fireTimers = () => {
    for (const timer of timers) if (timer.atMs <= time.nowMs && timers.delete(timer)) timer.callback()
  }
  /** Advances in small steps, because a jump would count as a stall and be forgiven. */
  const advanceTo = (atMs: number) => {
    for (; time.nowMs + 100 < atMs; time.nowMs += 100) fireTimers()
    time.nowMs = atMs
  }
  return { time, clock, fireTimers, advanceTo }
}

async function urlOf({ groups: state, hub, replicas }: Replica): Promise<string> {
  const { url, close } = await serveGroups({ state, hub, secret: 'secret', replicas })
  onTestFinished(close)
  return url
}

async function watch(replica: Replica): Promise<EventSource> {
  const source = new EventSource(`${await urlOf(replica)}/v1/watch?groups=jobs`)
  onTestFinished(() => source.close())
  return source
}

const shortText = ({ data }: Told) => {
  const { leader, previous_leader: previous } = data as {
    leader?: { term: number }
    previous_leader?: { term: number }
  }
  return `${data.type}, ${leader ? `led in term ${leader.term}` : `free after term ${previous?.term ?? 0}`}`
}

test.for(['active', 'follower'] as const)(
  'a watcher of the %s replica receives the end of a lease once when the lease expires during the first read',
  async (which) => {
    const { time, clock, fireTimers, advanceTo } = manualClock()
    const pair = await openPair({ groups: { clock: new ServingClock(clock) } })
    await pair.active.groups.campaign(claimOf('a', { ttlMs: 5_000 }), here)
    // The lease is live when the driver decides what to answer, and expires before it shows the lease.
    advanceTo(4_999.5)
    time.perReadMs = 1
    const source = await watch(pair[which])
    await source.until((told) => told.length === 1)
    Object.assign(time, { nowMs: 5_100, perReadMs: 0 })
    fireTimers()
    await source.until((told) => told.at(-1)?.data.type === 'LEADER_LOST')
    expect(source.told.map(shortText)).toEqual(['STATE, led in term 1', 'LEADER_LOST, free after term 1'])
  },
)

test('a replica does not show the end of a lease before its successor knows it', async () => {
  const { time, clock, advanceTo } = manualClock()
  const { cluster, active, follower } = await openPair({ groups: { clock: new ServingClock(clock) } })
  await active.groups.campaign(claimOf('a', { ttlMs: 5_000 }), here)
  advanceTo(4_999.5)
  time.perReadMs = 1
  const before = await active.groups.leader('jobs')
  time.perReadMs = 0
  await cluster.elect(follower)
  const after = await follower.groups.leader('jobs')
  expect([before.lease?.ended, after.lease?.ended]).toEqual([false, false])
})

/** Writes become durable at once, but their answers arrive later. */
class LateAnswers extends MemoryStorage {
  answering: Promise<void> = Promise.resolve()

  override async append(expected: StorageHead, batch: Batch): Promise<Appended> {
    const appended = await super.append(expected, batch)
    await this.answering
    return appended
  }
}

test('a follower that starts between a write and its answer emits the change once', async () => {
  const storage = new LateAnswers()
  const cluster = await openCluster(1, {}, storage)
  const [active] = cluster.replicas as [Replica]
  const local = active.local as LocalGroups
  await active.groups.campaign(claimOf('a', { ttlMs: 60_000 }), here)
  await active.groups.changes.whenFrom(active.places.now())
  // The end of the term is durable, but the active replica does not know it yet.
  const answer = newGate()
  storage.answering = answer.opened
  const { seq } = await storage.head()
  const resigned = active.groups.resign({ groupId: 'jobs', nodeId: 'a', term: 1 })
  await vi.waitFor(async () => expect((await storage.head()).seq).toBe(seq + 1))
  // A search through many groups takes several turns of the event loop.
  const search = newGate()
  const changedAfter = local.changedAfter.bind(local)
  local.changedAfter = async (...args) => {
    await search.opened
    return changedAfter(...args)
  }
  const late = await cluster.add()
  late.places.set({ kind: 'remote', term: cluster.term, address: active.address, replica: active.name })
  await late.groups.changes.whenFrom(late.places.now())
  answer.open()
  await resigned
  const source = await watch(late)
  await source.until((told) => told.length === 1)
  await vi.waitFor(() => expect(late.hub.watchersOf('jobs')).toBe(1))
  search.open()
  await active.groups.campaign(claimOf('b', { ttlMs: 60_000 }), here)
  await source.until((told) => told.at(-1)?.data.type === 'LEADER_CHANGED')
  expect(source.told.map(shortText)).toEqual(['STATE, free after term 1', 'LEADER_CHANGED, led in term 2'])
})

test('a snapshot of a deleted group is not followed by changes that it already includes', async () => {
  const { active, follower } = await openPair()
  await follower.groups.leaders(['jobs'])
  const { hub, groups } = follower
  const state = Object.create(groups) as typeof groups
  state.leaders = async (ids) => {
    await active.groups.campaign(claimOf('a', { ttlMs: 60_000 }), here)
    await active.groups.remove('jobs', { force: true })
    return groups.leaders(ids)
  }
  const start = { shown: undefined, left: ['jobs'], from: 'first', hasGap: true } as const
  const snapshot = await takeSnapshot({ hub, state, clock: systemClock }, start)
  expect(snapshot?.events.map((json) => (JSON.parse(json) as { type: string }).type)).toEqual(['STATE'])
})

test('a poll during a failover reports a gap for the changes that its replica missed', async () => {
  const { cluster, active, follower } = await openPair()
  await active.groups.campaign(claimOf('a', { ttlMs: 60_000 }), here)
  await follower.groups.leaders(['jobs'])
  const url = await urlOf(follower)
  const poll = async (cursor = '') => {
    const response = await fetch(`${url}/v1/groups/jobs/watch?wait_ms=0${cursor}`)
    return (await response.json()) as { cursor: string; events: { type: string }[] }
  }
  let { cursor } = await poll()
  active.proxy.set('blackhole', 'to-client')
  await active.groups.resign({ groupId: 'jobs', nodeId: 'a', term: 1 })
  // The follower becomes active, and learns about the changes that it missed just after the poll has read the feed.
  const [search, isSearching] = [newGate(), newGate()]
  const { changedAfter } = LocalGroups.prototype
  const spy = vi.spyOn(LocalGroups.prototype, 'changedAfter').mockImplementation(async function (
    this: LocalGroups,
    ...args
  ) {
    const changed = changedAfter.apply(this, args)
    isSearching.open()
    await search.opened
    return changed
  })
  onTestFinished(() => spy.mockRestore())
  await cluster.elect(follower)
  await isSearching.opened
  const { feed } = follower.hub
  const after = feed.after.bind(feed)
  feed.after = (position) => {
    const found = after(position)
    search.open()
    return found
  }
  const types: string[] = []
  for (let turn = 0; turn < 5; turn += 1) {
    const answer = await poll(`&cursor=${cursor}`)
    types.push(...answer.events.map(({ type }) => type))
    cursor = answer.cursor
  }
  expect(types).toEqual(['GAP', 'STATE'])
})
