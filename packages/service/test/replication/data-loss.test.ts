/** Tests of a storage that lost confirmed writes, and of a lost lease key. */
import { casStore } from 'tenure'
import { describe, expect, test } from 'vitest'
import { ConfirmedHead } from '../../src/replication/data-loss.ts'
import type { History, StorageHead } from '../../src/storage/storage.ts'
import { simulatedKv } from '../../../testing/src/simulation/simulated-kv.ts'
import { RolledBack } from '../storage/rolled-back-storage.ts'
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

/** The default lease duration of a replica. */
const leaseMs = 3_000

const complete = (incarnation: string): History => ({ incarnation, isComplete: true })
const incomplete = (incarnation: string): History => ({ incarnation, isComplete: false })

describe('the head in the storage', () => {
  test.each<[string, Partial<StorageHead>, History | undefined]>([
    ['is the last known one', {}, undefined],
    ['is of an append whose answer was lost', { seq: 101, batch: 'c' }, undefined],
    ['is from another replica', { term: 6, seq: 101, batch: 'c' }, undefined],
    ['was restored since', { term: 2, seq: 40, batch: 'c', restores: 2 }, undefined],
    ['is on a server that has all confirmed writes', {}, complete('two')],
    ['is on the server that wrote it', {}, incomplete('one')],
    ['names no server', { incarnation: '', seq: 101 }, incomplete('two')],
  ])('no data loss is reported when the head %s', (_name, change, history) => {
    const confirmed = new ConfirmedHead(head.restores)
    confirmed.note(head)
    const changes = confirmed.changesOn({ ...head, ...change }, history, 60_000)
    expect(changes).toEqual({ incarnation: history?.incarnation ?? change.incarnation ?? 'one' })
  })

  test.each<[string, Partial<StorageHead>, History | undefined]>([
    ['is before the last known one', { seq: 99, batch: 'a' }, undefined],
    ['is another one at the same position', { batch: 'c' }, undefined],
    ['has a higher term but too few batches', { term: 6, seq: 100, batch: 'c' }, undefined],
    ['has a lower term', { term: 4, seq: 101, batch: 'c' }, undefined],
    ['has fewer restores', { restores: 0, seq: 101, batch: 'c' }, undefined],
    ['is on a server that does not vouch for it', {}, incomplete('two')],
  ])('data loss is reported when the head %s', (_name, change, history) => {
    const confirmed = new ConfirmedHead(head.restores)
    confirmed.note(head)
    const changes = confirmed.changesOn({ ...head, ...change }, history, 60_000)
    expect(changes).toEqual({ incarnation: history?.incarnation ?? 'one', restores: 2, heldMs: 60_000 })
    // Once the loss is recorded, it is not reported again.
    const next = { ...head, ...change, ...changes, term: 9, batch: 'next' }
    confirmed.note(next)
    expect(confirmed.changesOn(next, history, 60_000)).toEqual({ incarnation: next.incarnation })
  })

  test('a position that no active replica can have sent is not used to detect data loss', () => {
    const confirmed = new ConfirmedHead(head.restores)
    confirmed.noteConfirmed({ ...head, index: 0 })
    confirmed.noteConfirmed({ ...head, restores: 2 ** 52, index: 0 })
    expect(confirmed.changesOn(head, undefined, 60_000)).toEqual({ incarnation: 'one' })
    // Positions before and after the loss still count.
    expect(confirmed.changesOn({ ...head, seq: 99 }, undefined, 60_000)).toMatchObject({ restores: 2 })
    confirmed.noteConfirmed({ ...head, restores: 3, index: 0 })
    expect(confirmed.changesOn(head, undefined, 60_000)).toMatchObject({ restores: 4 })
  })

  test.each<[string, Partial<StorageHead>, boolean]>([
    ['is the reported one', {}, false],
    ['is after the reported one', { seq: 101, batch: 'c' }, false],
    ['was restored since', { term: 2, seq: 40, restores: 2 }, false],
    ['is before the reported one', { seq: 99 }, true],
    ['has a higher term at the same position', { term: 6 }, true],
    ['has a lower term', { term: 4, seq: 101 }, true],
    ['has fewer restores', { restores: 0, seq: 101 }, true],
  ])(
    'a follower detects data loss by the position that the active replica reported when the head %s',
    (_name, change, isLoss) => {
      const confirmed = new ConfirmedHead(head.restores)
      confirmed.noteConfirmed({ restores: 1, term: 5, seq: 100, index: 3 })
      const changes = confirmed.changesOn({ ...head, ...change }, undefined, 60_000)
      expect(changes).toEqual(isLoss ? { incarnation: 'one', restores: 2, heldMs: 60_000 } : { incarnation: 'one' })
    },
  )

  test('the hold in the head is kept when it is longer than the new hold', () => {
    const found = { ...head, heldMs: 90_000 }
    expect(new ConfirmedHead(head.restores).changesOn(found, incomplete('two'), 60_000)).toMatchObject({
      heldMs: 90_000,
    })
  })
})

/** A server with replicas of its data. */
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

describe('data loss', () => {
  test('all groups are held for the longest lease after data loss, even across another failover', async () => {
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
    // If a group's definition allows longer leases than the service does, the hold lasts that long.
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

  test('a replica that knows more than the storage detects the data loss when it takes over again', async () => {
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

  test('a replica that only followed detects data loss when it takes over', async () => {
    const storage = new RolledBack()
    const { clock, events, start } = open(storage)
    const one = start('one')
    await clock.advance(10)
    const two = start('two')
    await clock.advance(10)
    storage.copy()
    expect(await campaign(groupsOf(one), 'a')).toMatchObject({ granted: true, lease: { term: 1 } })
    two.noteConfirmed(groupsOf(one).position)
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

  test('a failover to a server that has all confirmed writes does not count as data loss', async () => {
    const { clock, storage, events, one, start } = await lossy(() => {})
    // The storage has dropped a write. The replica must trust the server and not look for that write.
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

test('no second replica is elected before the active one has stopped answering, even if the lease key is lost', async () => {
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
  expect(one.now().kind).not.toBe('local')
  await clock.advance(10_000)
  expect([one.now().kind, two.now().kind]).toContain('local')
  expect((await storage.head()).term).toBeGreaterThan(1)
})
