/** A storage that lost what it had confirmed, and a lease key that is gone. */
import { casStore } from 'tenure'
import { describe, expect, test } from 'vitest'
import { ConfirmedHead } from '../../src/replication/data-loss.ts'
import type { History, StorageHead } from '../../src/storage/storage.ts'
import { simulatedKv } from '../../../tenure/src/simulation/simulated-kv.ts'
import { RolledBack } from '../storage/rolled-back.ts'
import { activeStore } from '../../src/storage/active-store.ts'
import { campaign, groupsOf, open, policy } from './scene.ts'

const head: StorageHead = {
  term: 5,
  seq: 100,
  batch: 'b',
  clusterId: 'cluster',
  restores: 1,
  incarnation: 'one',
  secret: 'secret',
}

/** A replica's own lease, by default. */
const leaseMs = 3_000

const complete = (incarnation: string): History => ({ incarnation, isComplete: true })
const incomplete = (incarnation: string): History => ({ incarnation, isComplete: false })

describe('a head that is found', () => {
  test.each<[string, Partial<StorageHead>, History | undefined]>([
    ['is the last one known', {}, undefined],
    ['is of an append whose answer was lost', { seq: 101, batch: 'c' }, undefined],
    ['is another replica’s', { term: 6, seq: 101, batch: 'c' }, undefined],
    ['was restored by somebody since', { term: 2, seq: 40, batch: 'c', restores: 2 }, undefined],
    ['is on a server that has all that was confirmed', {}, complete('two')],
    ['is on the server that wrote it', {}, incomplete('one')],
    ['names no server', { incarnation: '', seq: 101 }, incomplete('two')],
  ])('loses nothing where it %s', (_name, change, history) => {
    const confirmed = new ConfirmedHead(head.restores)
    confirmed.note(head)
    const changes = confirmed.changesOn({ ...head, ...change }, history, 60_000)
    expect(changes).toEqual({ incarnation: history?.incarnation ?? change.incarnation ?? 'one' })
  })

  test.each<[string, Partial<StorageHead>, History | undefined]>([
    ['is before the last one known', { seq: 99, batch: 'a' }, undefined],
    ['is another one in its place', { batch: 'c' }, undefined],
    ['has a higher term, and too few batches', { term: 6, seq: 100, batch: 'c' }, undefined],
    ['has a lower term', { term: 4, seq: 101, batch: 'c' }, undefined],
    ['knows of fewer restores', { restores: 0, seq: 101, batch: 'c' }, undefined],
    ['is on a server that does not vouch for it', {}, incomplete('two')],
  ])('shows that something is lost where it %s', (_name, change, history) => {
    const confirmed = new ConfirmedHead(head.restores)
    confirmed.note(head)
    const changes = confirmed.changesOn({ ...head, ...change }, history, 60_000)
    expect(changes).toEqual({ incarnation: history?.incarnation ?? 'one', restores: 2, heldMs: 60_000 })
    // Once that is noted, it is no loss any more.
    const next = { ...head, ...change, ...changes, term: 9, batch: 'next' }
    confirmed.note(next)
    expect(confirmed.changesOn(next, history, 60_000)).toEqual({ incarnation: next.incarnation })
  })

  test('is not counted on from what no active one can have told of', () => {
    const confirmed = new ConfirmedHead(head.restores)
    confirmed.heard({ ...head, index: 0 })
    confirmed.heard({ ...head, restores: 2 ** 52, index: 0 })
    expect(confirmed.changesOn(head, undefined, 60_000)).toEqual({ incarnation: 'one' })
    // What came before, and what comes after, is still known.
    expect(confirmed.changesOn({ ...head, seq: 99 }, undefined, 60_000)).toMatchObject({ restores: 2 })
    confirmed.heard({ ...head, restores: 3, index: 0 })
    expect(confirmed.changesOn(head, undefined, 60_000)).toMatchObject({ restores: 4 })
  })

  test.each<[string, Partial<StorageHead>, boolean]>([
    ['is the one that was told of', {}, false],
    ['is after it', { seq: 101, batch: 'c' }, false],
    ['was restored by somebody since', { term: 2, seq: 40, restores: 2 }, false],
    ['is before it', { seq: 99 }, true],
    ['has a higher term in its place', { term: 6 }, true],
    ['has a lower term', { term: 4, seq: 101 }, true],
    ['knows of fewer restores', { restores: 0, seq: 101 }, true],
  ])('is judged by what the active replica told of: it %s', (_name, change, isLoss) => {
    const confirmed = new ConfirmedHead(head.restores)
    confirmed.heard({ restores: 1, term: 5, seq: 100, index: 3 })
    const changes = confirmed.changesOn({ ...head, ...change }, undefined, 60_000)
    expect(changes).toEqual(isLoss ? { incarnation: 'one', restores: 2, heldMs: 60_000 } : { incarnation: 'one' })
  })

  test('is held for as long as it says where that is longer', () => {
    const found = { ...head, heldMs: 90_000 }
    expect(new ConfirmedHead(head.restores).changesOn(found, incomplete('two'), 60_000)).toMatchObject({
      heldMs: 90_000,
    })
  })
})

/** A server with copies. */
class Copied extends RolledBack {
  isComplete = true

  override async history(): Promise<History> {
    return { incarnation: this.incarnation, isComplete: this.isComplete }
  }
}

async function lossy(change: (storage: Copied) => void) {
  const storage = new Copied()
  const scene = open(storage)
  const one = scene.start('one')
  await scene.clock.advance(10)
  storage.copy()
  await campaign(groupsOf(one), 'a')
  storage.rollBack()
  change(storage)
  return { ...scene, storage, one }
}

describe('after a loss', () => {
  test('nobody is granted anything for the longest lease, in any group, even over a further failover', async () => {
    const { clock, storage, events, one, start } = await lossy((server) => {
      server.incarnation = 'timeline 2'
      server.isComplete = false
    })
    const two = start('two')
    await clock.advance(10)
    await one.stop()
    await clock.advance(100)
    expect(events).toContain('two tail-lost')
    expect(await storage.head()).toMatchObject({
      restores: 1,
      incarnation: 'timeline 2',
      heldMs: policy.maxTtlMs + leaseMs,
    })
    const groups = groupsOf(two)
    expect(await campaign(groups, 'b')).toMatchObject({
      granted: false,
      freeInMs: expect.closeTo(59_900 + leaseMs, -3),
    })
    expect(await campaign(groups, 'b', { groupId: 'unknown' })).toMatchObject({ granted: false })
    // A definition that allows more than the service does is held for that long.
    const longer = { policy: { minTtlMs: 1_000, maxTtlMs: 90_000 }, allowedNodes: undefined }
    await groups.define('defined', longer, { replace: false })

    const three = start('three')
    await clock.advance(50_000)
    await two.stop()
    await clock.advance(85_000)
    expect(events.filter((event) => event.endsWith('tail-lost'))).toHaveLength(1)
    expect(await campaign(groupsOf(three), 'b')).toMatchObject({ granted: false })
    const waiting = campaign(groupsOf(three), 'c', { waitMs: 60_000 })
    await clock.advance(6_000)
    expect(await waiting).toMatchObject({ granted: true, lease: { term: 1_000_001 } })
    const { heldMs, restores } = await storage.head()
    expect({ heldMs, restores }).toEqual({ heldMs: undefined, restores: 1 })
  })

  test('a replica that knows more than the storage notices it by itself, when it takes over again', async () => {
    const { clock, one, events } = await lossy(() => {})
    await expect(campaign(groupsOf(one), 'b', { groupId: 'other' })).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
    })
    await clock.advance(10_000)
    expect(events).toEqual([
      'one elected',
      'one serving',
      'one ended fenced',
      'one elected',
      'one tail-lost',
      'one serving',
    ])
    expect(await campaign(groupsOf(one), 'b')).toMatchObject({ granted: false })
  })

  test('a replica that only followed notices it too, when it takes over', async () => {
    const storage = new RolledBack()
    const { clock, events, start } = open(storage)
    const one = start('one')
    await clock.advance(10)
    const two = start('two')
    await clock.advance(10)
    storage.copy()
    expect(await campaign(groupsOf(one), 'a')).toMatchObject({ granted: true, lease: { term: 1 } })
    two.heard(groupsOf(one).position)
    storage.rollBack()
    void one.stop()
    await clock.advance(200)
    expect(events).toContain('two tail-lost')
    expect(await campaign(groupsOf(two), 'b')).toMatchObject({ granted: false })
    // The former active replica may have confirmed a renewal just before the end of its own lease.
    await clock.advance(policy.maxTtlMs)
    expect(await campaign(groupsOf(two), 'b')).toMatchObject({ granted: false })
    await clock.advance(leaseMs)
    expect(await campaign(groupsOf(two), 'b')).toMatchObject({ granted: true, lease: { term: 1_000_001 } })
  })

  test('a failover to a server that has all of it changes nothing', async () => {
    const { clock, storage, events, one, start } = await lossy(() => {})
    // It was lost only to see that nobody looks for it.
    storage.incarnation = 'timeline 2'
    const two = start('two')
    await clock.advance(10)
    await one.stop()
    await clock.advance(100)
    expect(events).not.toContain('two tail-lost')
    expect(await storage.head()).toMatchObject({ restores: 0, incarnation: 'timeline 2' })
    expect(await campaign(groupsOf(two), 'b')).toMatchObject({ granted: true })
  })
})

test('a lost lease key elects nobody beside a living active one, not even of those who never saw it', async () => {
  const { clock, storage, start, events } = open()
  const kv = simulatedKv({ watch: false })
  const leases = activeStore(casStore(kv, { clock }), storage)
  const one = start('one', { leases })
  await clock.advance(10)
  kv.delete('active')
  const two = start('two', { leases })
  for (let passedMs = 0; passedMs < 2_900; passedMs += 100) {
    await clock.advance(100)
    expect(events).not.toContain('two elected')
  }
  expect(one.now().kind).not.toBe('here')
  await clock.advance(10_000)
  expect([one.now().kind, two.now().kind]).toContain('here')
  expect((await storage.head()).term).toBeGreaterThan(1)
})
