/**
 * Tests of the watchers of a follower: they receive the same changes in the same order, no matter which replica is
 * active.
 */
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { ActiveReplica } from '../../src/replication/active-replica.ts'
import type { ChangeGap, GroupChange } from '../../src/groups/port.ts'
import { isAfter, textOf, type Position } from '../../src/storage/position.ts'
import { RolledBack } from '../storage/rolled-back-storage.ts'
import { EventSource } from '../watch/event-source.ts'
import { serveGroups } from './serve-replica.ts'
import { claimOf, here, openThree, policy, type Replica, type ReplicaOptions } from './test-cluster.ts'

interface Heard {
  readonly changes: (GroupChange & { readonly position: Position })[]
  readonly breaks: ChangeGap[]
  readonly renewals: GroupChange[]
}

function listen({ groups }: Replica, renewals = false): Heard {
  const heard: Heard = { changes: [], breaks: [], renewals: [] }
  groups.listen({
    onChange: (change) => void heard.changes.push(change),
    onGap: (gap) => void heard.breaks.push(gap),
    wantsRenewals: () => renewals,
    onRenewal: (change) => void heard.renewals.push(change),
  })
  return heard
}

const lead = ({ groups }: Replica, groupId: string, nodeId = 'a', more: object = {}) =>
  groups.campaign(claimOf(nodeId, { groupId, ...more }), here)
const leave = ({ groups }: Replica, groupId: string, term: number, nodeId = 'a') =>
  groups.resign({ groupId, nodeId, term })

/** Waits until the other replicas have emitted every change that the active one has emitted. */
async function caughtUp(active: Replica, ...others: readonly Replica[]): Promise<void> {
  for (const { groups, places } of [active, ...others]) await groups.changes.whenFrom(places.now())
  for (const { groups } of others) {
    await vi.waitFor(() => expect(isAfter(active.hub.feed.position, groups.changes.position)).toBe(false), 10_000)
  }
}

const textsOfAll = ({ changes }: Heard) =>
  changes.map(({ type, groupId, lease, position }) => `${textOf(position)} ${type} ${groupId} ${lease.term}`)

test('every replica accepts a cursor that another replica issued', async () => {
  const { cluster, active, next } = await openThree()
  await lead(active, 'jobs', 'a', { ttlMs: 60_000 })
  // This write does not change a leader, so the head is ahead of the newest change.
  await active.groups.define('other', { policy, allowedNodes: undefined }, { replace: false })
  // The late replica begins at the head.
  const late = await cluster.add()
  late.places.set(next.places.now())
  const { secret } = await cluster.storage.head()
  const urlOf = async ({ groups: state, hub, replicas }: Replica) =>
    (await serveGroups({ state, hub, secret, replicas })).url
  const urls = await Promise.all([late, active, next].map(urlOf))
  const watch = async (url: string | undefined, cursor = '') => {
    const response = await fetch(`${url}/v1/groups/jobs/watch?wait_ms=0${cursor}`)
    return { status: response.status, ...((await response.json()) as { cursor: string }) }
  }
  const { cursor } = await watch(urls[0])
  for (const url of urls) {
    expect(await watch(url, `&cursor=${cursor}`)).toMatchObject({ status: 200, events: [] })
  }
  await leave(active, 'jobs', 1)
  for (const url of urls) {
    const events = [{ type: 'LEADER_LOST' }]
    await vi.waitFor(
      async () => expect(await watch(url, `&cursor=${cursor}`)).toMatchObject({ status: 200, events }),
      10_000,
    )
  }
})

describe('changes on a follower', () => {
  test('a follower misses no change that was sent while it did not know the active replica', async () => {
    const { active, next, follower } = await openThree()
    await caughtUp(active, next, follower)
    const heard = listen(follower)
    const place = follower.places.now() as ActiveReplica & { readonly kind: 'remote' }
    follower.places.set({ kind: 'unknown' })
    await lead(active, 'first')
    const link = follower.groups.clientFor(place)
    // Any answer arrives after the change of the first group.
    await Promise.allSettled([link.call('leader', ['first'], { deadlineMs: 5_000 })])
    active.proxy.set('hold', 'to-client')
    await lead(active, 'second')
    const { sent } = active.proxy
    follower.places.set(place)
    await vi.waitFor(() => expect(active.proxy.sent).toBeGreaterThan(sent), 10_000)
    active.proxy.set('pass')
    await caughtUp(active, follower)
    expect(heard.changes.map(({ groupId }) => groupId)).toEqual(['first', 'second'])
    expect(follower.groups.clientFor(place)).toBe(link)
  })

  test('a follower emits the changes of the active replica with the same positions, however often it reconnects', async () => {
    const { active, next, follower } = await openThree()
    const heard = [active, next, follower].map((replica) => listen(replica))
    const groups = ['a', 'b', 'c', 'd']
    for (let term = 1; term <= 20; term++) {
      await Promise.all(groups.map((group) => lead(follower, group, 'a', { metadata: `{"term":${term}}` })))
      if (term % 4 === 0) active.proxy.reset()
      await Promise.all(groups.map((group) => leave(next, group, term)))
    }
    await caughtUp(active, next, follower)
    const [first, ...others] = heard.map(textsOfAll)
    expect(first).toHaveLength(groups.length * 40)
    for (const other of others) expect(other).toEqual(first)
    for (const { changed } of heard.flatMap(({ breaks }) => breaks)) expect(changed).toEqual(new Set())
    // A cursor from one replica is valid on all replicas.
    const { feed } = active.hub
    const position = feed.after(heard[0]?.changes[49]?.position as Position)?.[0]?.position as Position
    for (const { hub } of [next, follower]) expect(hub.feed.find(feed.cursorAt(position))).toEqual(position)
    const rest = [active, next, follower].map(({ hub }) => hub.feed.after(position)?.length)
    expect(rest).toEqual([109, 109, 109])
  })

  test('a follower emits metadata as the active replica sent it, and keeps the newest for watchers that resume', async () => {
    const { active, follower } = await openThree()
    await caughtUp(active, follower)
    const { changes } = listen(follower)
    await lead(active, 'jobs', 'a', { metadata: '{"zone":"old"}' })
    await leave(active, 'jobs', 1)
    await lead(active, 'jobs', 'b', { metadata: '{"zone":"new"}' })
    await caughtUp(active, follower)
    expect(changes.map(({ lease }) => lease.metadata)).toEqual(['{"zone":"old"}', '{"zone":"old"}', '{"zone":"new"}'])
    expect(follower.groups.textsOf('jobs', 1)).toBeUndefined()
    expect(follower.groups.textsOf('jobs', 2)).toEqual({ metadata: '{"zone":"new"}', checkpoint: '' })
  })

  test('a follower receives renewals only while a watcher wants them', async () => {
    const { active, follower } = await openThree()
    const renew = () => active.groups.renew({ groupId: 'jobs', nodeId: 'a', term: 1, extendByMs: 5_000 })
    await lead(active, 'jobs')
    const quiet = listen(follower)
    await renew()
    await leave(active, 'jobs', 1)
    await caughtUp(active, follower)
    expect(quiet.renewals).toEqual([])
    await lead(active, 'jobs')
    const curious = listen(follower, true)
    await vi.waitFor(async () => {
      await active.groups.renew({ groupId: 'jobs', nodeId: 'a', term: 2, extendByMs: 5_000 })
      expect(curious.renewals.length).toBeGreaterThan(0)
    }, 10_000)
    expect(curious.renewals[0]).toMatchObject({ type: 'RENEWED', groupId: 'jobs', lease: { term: 2 } })
    expect(quiet.renewals).toEqual([])
  })
})

describe('failovers', () => {
  test('a failover causes no gap when every change was received before it', async () => {
    const { cluster, active, next, follower } = await openThree()
    await lead(active, 'one')
    await caughtUp(active, next, follower)
    const heard = [active, next, follower].map((replica) => listen(replica))
    await cluster.elect(next)
    await lead(follower, 'two')
    await caughtUp(next, active, follower)
    for (const { changes, breaks } of heard) {
      expect(changes.map(({ groupId }) => groupId)).toEqual(['two'])
      // The replicas know that nothing has changed.
      for (const { changed } of breaks) expect(changed).toEqual(new Set())
    }
  })

  test('a failover reports exactly the groups whose changes were not received', async () => {
    const { cluster, active, next, follower } = await openThree()
    for (const group of ['known', 'missed', 'new']) if (group !== 'new') await lead(active, group)
    await caughtUp(active, next, follower)
    const heard = [next, follower].map((replica) => listen(replica))
    active.proxy.set('blackhole', 'to-client')
    await leave(active, 'missed', 1)
    await lead(active, 'new')
    await cluster.elect(next)
    await caughtUp(next, follower)
    await lead(next, 'after')
    await caughtUp(next, follower)
    for (const { changes, breaks } of heard) {
      expect(breaks.map(({ changed }) => changed)).toEqual([new Set(['missed', 'new'])])
      expect(changes.map(({ groupId }) => groupId)).toEqual(['after'])
    }
  })

  test('a follower reports that any group may have changed after data loss', async () => {
    const { cluster, active, next, follower } = await openThree()
    await lead(active, 'one')
    await caughtUp(active, next, follower)
    const { breaks } = listen(follower)
    const head = await cluster.storage.head()
    await cluster.storage.append(head, { head: { ...head, seq: head.seq + 1, batch: 'x', restores: 1 }, groups: [] })
    await cluster.elect(next)
    await caughtUp(next, follower)
    expect(breaks.map(({ changed }) => changed)).toEqual([undefined])
  })

  test('a follower reports that any group may have changed after data loss that only the followers know about', async () => {
    const storage = new RolledBack()
    const heard: Position[] = []
    const { cluster, active, next, follower } = await openThree(
      { client: { onHeard: (at) => heard.push(at) } },
      storage,
    )
    storage.copy()
    for (const groupId of ['one', 'two', 'three']) await lead(active, groupId)
    await caughtUp(active, next, follower)
    // The storage must have this position from now on.
    expect(heard).toContainEqual(active.groups.changes.position)
    const told = [next, follower].map((replica) => listen(replica))
    storage.rollBack()
    await cluster.elect(next)
    await caughtUp(next, follower)
    for (const { breaks } of told) expect(breaks.map(({ changed }) => changed)).toEqual([undefined])
    for (const each of [next, follower]) expect(each.groups.changes.position).toMatchObject({ term: 2, seq: 2 })
  })
})

describe('watchers over HTTP', () => {
  async function openServed(options: ReplicaOptions = {}) {
    const three = await openThree(options)
    const urls = new Map<Replica, string>()
    for (const { groups, hub, replicas } of three.cluster.replicas) {
      const { url, close } = await serveGroups({ state: groups, hub, secret: 'secret', replicas })
      onTestFinished(close)
      urls.set(three.cluster.replicas[urls.size] as Replica, url)
    }
    const watch = (replica: Replica, groups: string) => {
      const source = new EventSource(`${urls.get(replica)}/v1/watch?groups=${groups}`)
      onTestFinished(() => source.close())
      return source
    }
    const poll = async (replica: Replica, groups: string, cursor?: string) => {
      const query = cursor === undefined ? '' : `&wait_ms=0&cursor=${cursor}`
      const answer = await fetch(`${urls.get(replica)}/v1/watch?groups=${groups}${query}`)
      return (await answer.json()) as { cursor: string; events: Record<string, unknown>[]; error?: string }
    }
    return { ...three, watch, poll }
  }

  test('a watcher of a follower receives the state and then every change once', async () => {
    const { active, follower, watch } = await openServed()
    await lead(active, 'jobs')
    const source = watch(follower, 'jobs,other')
    await source.until((told) => told.length === 2)
    await leave(active, 'jobs', 1)
    await lead(active, 'other')
    await source.until((told) => told.length === 4)
    expect(source.told.map(({ data }) => [data.type, data['group_id']])).toEqual([
      ['STATE', 'jobs'],
      ['STATE', 'other'],
      ['LEADER_LOST', 'jobs'],
      ['LEADER_CHANGED', 'other'],
    ])
  })

  test('a watcher stays connected across a failover and receives a GAP and the state of only the missed groups', async () => {
    const { cluster, active, next, follower, watch } = await openServed()
    await lead(active, 'known')
    await lead(active, 'missed')
    const sources = [
      [watch(follower, 'known,missed'), watch(next, 'known,missed')],
      [watch(follower, 'known'), watch(next, 'known')],
    ] as const
    for (const source of sources[0]) await source.until((told) => told.length === 2)
    for (const source of sources[1]) await source.until((told) => told.length === 1)
    active.proxy.set('blackhole', 'to-client')
    await leave(active, 'missed', 1)
    await cluster.elect(next)
    await caughtUp(next, follower)
    for (const source of sources[0]) await source.until((told) => told.length === 4)
    await leave(next, 'known', 1)
    for (const source of sources.flat()) await source.until((told) => told.at(-1)?.data.type === 'LEADER_LOST')
    for (const { told, connections } of sources[0]) {
      expect(told.slice(2).map(({ data }) => [data.type, data['group_id']])).toEqual([
        ['GAP', undefined],
        ['STATE', 'missed'],
        ['LEADER_LOST', 'known'],
      ])
      expect(connections).toBe(1)
    }
    for (const { told } of sources[1]) expect(told.map(({ data }) => data.type)).toEqual(['STATE', 'LEADER_LOST'])
  })

  test('a watcher moves between replicas with its cursor, before and after a failover', async () => {
    const { cluster, active, next, follower, poll } = await openServed()
    let { cursor } = await poll(active, 'jobs')
    const told: unknown[] = []
    let term = 0
    for (const replica of [follower, next, active, follower]) {
      await lead(active, 'jobs')
      term += 1
      await caughtUp(active, next, follower)
      const answer = await poll(replica, 'jobs', cursor)
      told.push(...answer.events.map(({ type, term: of }) => `${String(type)} ${String(of)}`))
      cursor = answer.cursor
      await leave(active, 'jobs', term)
    }
    await caughtUp(active, next, follower)
    await cluster.elect(next)
    await lead(next, 'jobs')
    await caughtUp(next, follower)
    const last = await poll(follower, 'jobs', cursor)
    const missed = last.events.map(({ type }) => type)
    expect(told).toEqual([
      'LEADER_CHANGED 1',
      'LEADER_LOST 1',
      'LEADER_CHANGED 2',
      'LEADER_LOST 2',
      'LEADER_CHANGED 3',
      'LEADER_LOST 3',
      'LEADER_CHANGED 4',
    ])
    expect(missed).toEqual(['LEADER_LOST', 'LEADER_CHANGED'])
    const { error } = await poll(follower, 'jobs', 'A'.repeat(94))
    expect(error).toBe('INVALID_REQUEST')
  })

  test('a poll across a failover is answered with a GAP and the current state', async () => {
    const { cluster, active, next, follower, poll } = await openServed()
    await lead(active, 'jobs')
    const { cursor } = await poll(follower, 'jobs')
    active.proxy.set('blackhole', 'to-client')
    await leave(active, 'jobs', 1)
    await cluster.elect(next)
    await caughtUp(next, follower)
    const { events } = await poll(follower, 'jobs', cursor)
    expect(events).toMatchObject([{ type: 'GAP' }, { type: 'STATE', leader: null, previous_leader: { term: 1 } }])
  })
})
