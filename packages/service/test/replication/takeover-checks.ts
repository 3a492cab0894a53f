/** What a replica without a complete copy of the groups must do when it is elected, and when it is asked if it is ready. */
import { deepStrictEqual, doesNotThrow, ok, strictEqual, throws } from 'node:assert/strict'
import type { FakeClock } from '@tenure/testing'
import type { LeaseStore } from 'tenure'
import type { ActiveReplica } from '../../src/replication/active-replica.ts'
import type * as replicas from '../../src/replication/replica.ts'
import { activeStore } from '../../src/storage/active-store.ts'
import type { FollowerReads, Storage } from '../../src/storage/storage.ts'
import { FollowedStorage } from '../storage/followed-storage.ts'
import { open } from './scene.ts'

export type ReplicaModule = typeof replicas

export interface TakeoverCheck {
  readonly name: string
  run(modules: ReplicaModule): Promise<void>
}

/** A promise that resolves when the test calls `release`, or after a minute. */
function gate(clock: FakeClock) {
  let release = () => {}
  const released = new Promise<void>((resolve) => (release = resolve))
  clock.setTimer(60_000, release)
  return { released, release }
}

/** The same storage, for a replica whose reads of pages wait until the test calls `release`. */
function heldBack(storage: FollowedStorage, clock: FakeClock) {
  const { released, release } = gate(clock)
  const follower: FollowerReads = {
    ...storage.follower,
    page: (from) => released.then(() => storage.follower.page(from)),
  }
  const view: Storage = {
    follower,
    maxBatch: storage.maxBatch,
    head: () => storage.head(),
    history: () => storage.history(),
    append: (expected, batch) => storage.append(expected, batch),
    load: () => storage.load(),
    check: () => storage.check(),
    close: () => storage.close(),
  }
  return { view, release }
}

/** The same leases, for a replica whose calls fail while `isDown` is true. */
function interrupted(leases: LeaseStore, storage: FollowedStorage) {
  const link = { isDown: false, leases: leases }
  const through =
    <Args extends unknown[], Answer>(call: (...args: Args) => Promise<Answer>) =>
    (...args: Args) =>
      link.isDown ? Promise.reject(new Error('The store does not answer.')) : call(...args)
  const { expiry, terms, watch } = leases
  const linked: LeaseStore = {
    expiry,
    terms,
    read: through(leases.read),
    acquire: through(leases.acquire),
    renew: through(leases.renew),
    release: through(leases.release),
    ...(watch && { watch }),
  }
  link.leases = activeStore(linked, storage)
  return link
}

const isActive = (replica: { now(): ActiveReplica }) => replica.now().kind === 'local'

/** The name of the active replica that this one forwards calls to. */
function activeAt(replica: { now(): ActiveReplica }): string | undefined {
  const active = replica.now()
  return active.kind === 'remote' ? active.replica : undefined
}

const stillReading = /This replica is still reading the groups/

export const takeoverChecks: readonly TakeoverCheck[] = [
  {
    name: 'a follower is ready once it has read the groups',
    async run(modules) {
      const storage = new FollowedStorage()
      const { clock, start } = open(storage, modules)
      start('one')
      await clock.advance(10)
      const { view, release } = heldBack(storage, clock)
      const two = start('two', { storage: view })
      await clock.advance(1_000)
      throws(() => two.checkCopy(), stillReading)
      release()
      await clock.advance(10)
      doesNotThrow(() => two.checkCopy())
    },
  },
  {
    name: 'a replica that lost its lease leaves the takeover to a follower with a copy, and does not load first',
    async run(modules) {
      const storage = new FollowedStorage()
      const { clock, leases, events, start } = open(storage, modules)
      const links = [interrupted(leases, storage), interrupted(leases, storage)] as const
      const one = start('one', { leases: links[0].leases })
      await clock.advance(10)
      const two = start('two', { leases: links[1].leases })
      await clock.advance(1_000)
      ok(isActive(one))
      const { released } = gate(clock)
      storage.beforeRead = (read) => (read === 'page' ? released : undefined)
      for (const link of links) link.isDown = true
      await clock.advance(4_000)
      // The store answers the former active replica first.
      links[0].isDown = false
      await clock.advance(1_000)
      links[1].isDown = false
      await clock.advance(1_000)
      deepStrictEqual(events.slice(2), ['one ended lost', 'two elected', 'two serving'])
      ok(isActive(two))
    },
  },
  {
    name: 'a replica that has just started leaves the takeover to a follower with a copy',
    async run(modules) {
      const storage = new FollowedStorage()
      const { clock, leases, start } = open(storage, modules)
      const one = start('one')
      await clock.advance(10)
      const link = interrupted(leases, storage)
      const two = start('two', { leases: link.leases })
      await clock.advance(1_000)
      const { view } = heldBack(storage, clock)
      link.isDown = true
      const three = start('three', { storage: view })
      await one.stop()
      await clock.advance(10)
      const record = await leases.read('active', { signal: new AbortController().signal, timeoutMs: 1_000 })
      strictEqual(record?.holder, 'three')
      link.isDown = false
      await clock.advance(1_000)
      ok(isActive(two))
      strictEqual(activeAt(three), 'two')
    },
  },
  {
    name: 'a replica without a copy leaves each takeover to the others, as long as one of them takes over',
    async run(modules) {
      const storage = new FollowedStorage()
      const { clock, leases, start } = open(storage, modules)
      const one = start('one')
      await clock.advance(10)
      const { view } = heldBack(storage, clock)
      const cold = start('cold', { storage: view })
      await clock.advance(1_000)
      let active = one
      for (const name of ['two', 'three', 'four']) {
        const link = interrupted(leases, storage)
        const next = start(name, { leases: link.leases })
        await clock.advance(4_000)
        // The cold replica is elected first.
        link.isDown = true
        await active.stop()
        await clock.advance(10)
        link.isDown = false
        await clock.advance(1_000)
        ok(isActive(next))
        active = next
      }
      strictEqual(activeAt(cold), 'four')
    },
  },
  {
    name: 'replicas of which none has a copy leave a takeover to each other only once',
    async run(modules) {
      const storage = new FollowedStorage()
      const { clock, start } = open(storage, modules)
      const one = start('one')
      await clock.advance(10)
      const views = [heldBack(storage, clock), heldBack(storage, clock)] as const
      const others = views.map(({ view }, at) => start(`cold-${at}`, { storage: view }))
      await clock.advance(5_000)
      await one.stop()
      await clock.advance(1_000)
      strictEqual((await storage.head()).term, 1)
      // After a step-down a replica pauses for one lease. The next one that is elected swaps the head and loads.
      await clock.advance(3_000)
      ok((await storage.head()).term > 1)
      for (const { release } of views) release()
      await clock.advance(10)
      strictEqual(others.filter(isActive).length, 1)
    },
  },
  {
    name: 'a replica that was active is not ready before it has read the groups again',
    async run(modules) {
      const storage = new FollowedStorage()
      const { clock, leases, start } = open(storage, modules)
      const link = interrupted(leases, storage)
      const one = start('one', { leases: link.leases })
      await clock.advance(10)
      doesNotThrow(() => one.checkCopy())
      start('two')
      await clock.advance(1_000)
      const { released, release } = gate(clock)
      storage.beforeRead = (read) => (read === 'page' ? released : undefined)
      link.isDown = true
      await clock.advance(5_000)
      throws(() => one.checkCopy(), stillReading)
      release()
      await clock.advance(10)
      doesNotThrow(() => one.checkCopy())
    },
  },
  {
    name: 'a replica that has just started takes over at once when there are few groups',
    async run(modules) {
      const { clock, start } = open(new FollowedStorage(), modules)
      const one = start('one')
      await clock.advance(10)
      ok(isActive(one))
    },
  },
]
