import { deepStrictEqual, ok } from 'node:assert/strict'
import { runWithFaults } from './random-faults.ts'
import { leaseMs, ShardFleet, storeKinds } from './shard-fleet.ts'

/** What happens to a fleet in virtual time. Each scene rejects if S1 or S2 is violated, or if its name is not true. */
export const driverScenes = {
  async 'runs with random faults keep S1 and S2, and settle'() {
    for (let seed = 1; seed <= 20; seed += 1) for (const kind of storeKinds) await runWithFaults(kind, seed)
  },

  async 'a coordinator that cannot read the seat of a member frees none of its shards, and steps down'() {
    for (const kind of storeKinds) {
      const fleet = new ShardFleet(kind, 4)
      const ada = fleet.join('ada')
      await fleet.until(() => ada.shards.status().isCoordinator, 2 * leaseMs)
      const bob = fleet.join('bob')
      await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
      const owned = bob.shards.status().owned
      ada.fateOf = (verb, election) => ({ error: verb === 'read' && election === 'sessions.member.1' })
      await fleet.until(() => !ada.shards.status().isCoordinator, 2 * leaseMs)
      await fleet.until(() => bob.shards.status().isCoordinator, 2 * leaseMs)
      await fleet.advance(2 * leaseMs)
      deepStrictEqual(bob.shards.status().owned, owned)
    }
  },

  async 'a seat is not released before its process has reported that it left'() {
    const fleet = new ShardFleet('memory', 4)
    const ada = fleet.join('ada')
    fleet.join('bob')
    await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
    ada.settleMs = 5_000
    await fleet.leave(ada)
    ok(ada.working.size === 0)
  },
} as const satisfies Readonly<Record<string, () => Promise<void>>>
