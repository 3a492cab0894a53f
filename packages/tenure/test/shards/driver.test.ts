import { describe, expect, test } from 'vitest'
import { leaseMs, ShardFleet, storeKinds, takeoverMs } from './shard-fleet.ts'

describe.each(storeKinds)('%s store', (kind) => {
  test('three processes share the shards fairly, and each knows the owner of every key', async () => {
    const fleet = new ShardFleet(kind, 12)
    const [ada, bob, eve] = ['ada', 'bob', 'eve'].map((name) => fleet.join(name))
    await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
    expect(fleet.loads()).toEqual([4, 4, 4])
    await fleet.advance(leaseMs)
    for (const key of ['chat-1', 'chat-2', 'chat-3', 'chat-42']) {
      const owners = [ada, bob, eve].map((process) => process?.shards.ownerOf(key))
      const [first] = owners
      expect(first?.metadata).toEqual({ address: `http://${first?.identity}` })
      expect(owners.map((owner) => owner?.identity)).toEqual(Array(3).fill(first?.identity))
      const owning = fleet.processes.filter(({ shards }) => shards.owns(key))
      expect(owning.map(({ identity }) => identity)).toEqual([first?.identity])
    }
    expect(fleet.log).toEqual([])
  })

  test('a process that leaves hands its shards over, and its work has settled before others begin', async () => {
    const fleet = new ShardFleet(kind, 6)
    const [ada] = ['ada', 'bob', 'eve'].map((name) => fleet.join(name))
    await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
    if (ada) ada.settleMs = 3_000
    if (ada) await fleet.leave(ada)
    expect(ada?.working.size).toBe(0)
    await fleet.until(() => fleet.isSettled(), leaseMs)
    expect(fleet.loads()).toEqual([3, 3])
    expect(fleet.log).toEqual([])
  })

  test('the shards of a process that crashes are owned again within one lease and a few reads', async () => {
    const fleet = new ShardFleet(kind, 6)
    const [, , eve] = ['ada', 'bob', 'eve'].map((name) => fleet.join(name))
    await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
    if (eve) fleet.crash(eve)
    expect(await fleet.until(() => fleet.isSettled(), 3 * leaseMs)).toBeLessThan(takeoverMs)
  })

  test('the shards of a coordinator that crashes are owned again within one and a half leases and a few reads', async () => {
    const fleet = new ShardFleet(kind, 6)
    for (const name of ['ada', 'bob', 'eve']) fleet.join(name)
    await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
    const coordinator = fleet.processes.find(({ shards }) => shards.status().isCoordinator)
    if (coordinator) fleet.crash(coordinator)
    expect(await fleet.until(() => fleet.isSettled(), 4 * leaseMs)).toBeLessThan(takeoverMs + 0.55 * leaseMs)
  })

  test('a recovery frees no shard of a member on a seat that the coordinator itself would never take', async () => {
    const fleet = new ShardFleet(kind, 6)
    // A rolling update that raises maxMembers: the older process coordinates.
    const ada = fleet.join('ada', { maxMembers: 1 })
    const bob = fleet.join('bob', { maxMembers: 4 })
    await fleet.until(() => bob.shards.status().owned.length === 3, 6 * leaseMs)
    await fleet.until(() => fleet.isSettled(), leaseMs)
    // Bob renews its seat, but learns nothing about the group. S1 is checked all the time.
    bob.fateOf = (_, election) => (election === 'sessions' ? { lost: 'request' } : {})
    fleet.delete('sessions')
    // With a third member, the next assignment gives some of bob's shards to others.
    const eve = fleet.join('eve', { maxMembers: 4 })
    eve.fateOf = (verb, election) => (verb === 'acquire' && election === 'sessions' ? { lost: 'request' } : {})
    await fleet.until(() => ada.shards.status().isCoordinator, 6 * leaseMs)
    await fleet.advance(4 * leaseMs)
    bob.fateOf = () => ({})
    await fleet.until(() => fleet.isSettled(), 6 * leaseMs)
  })

  test('a coordinator replaces a crashed member on a seat that it would never take itself', async () => {
    const fleet = new ShardFleet(kind, 6)
    fleet.join('ada', { maxMembers: 1 })
    const bob = fleet.join('bob', { maxMembers: 4 })
    await fleet.until(() => fleet.isSettled() && bob.shards.status().owned.length === 3, 6 * leaseMs)
    fleet.crash(bob)
    await fleet.until(() => fleet.isSettled(), takeoverMs + leaseMs)
  })
})
