import { expect, test } from 'vitest'
import { redis } from '../servers/redis.ts'
import { describeWith } from '../servers/suite.ts'
import { settledWithinMs, shardsTimeout as timeout } from './shard-faults.ts'
import { ShardFleet, type Slot } from './shard-fleet.ts'

const leaseDurationMs = 30_000
/** A process renews its leases every 10 s, so no lease of a dead process expires within this time. */
const beforeExpiryMs = 19_000

describeWith(redis, 'shards and releaseOnCrash', (server) => {
  test(
    'the shards of a killed process, and of a killed coordinator, have owners again long before its lease expires',
    {
      timeout,
    },
    async () => {
      const urlAt = (port: number) => `redis://127.0.0.1:${port}`
      const { port } = server()
      const more = { size: 3, shards: 30, keys: 30, leaseDurationMs, releaseOnCrash: true }
      const fleet = await ShardFleet.start({ ...more, port, urlAt })
      for (const slot of fleet.slots) fleet.join(slot)
      // All shards of one process are enough, so this need not wait until loads are fair.
      const kill = async (find: (slot: Slot) => boolean) => {
        await fleet.ownedMs(settledWithinMs + leaseDurationMs)
        const slot =
          fleet.running.find((one) => one.owned.size > 0 && find(one)) ?? expect.unreachable('nobody to kill')
        await fleet.kill(slot)
        expect(fleet.isOwned()).toBe(false)
        await fleet.ownedMs(beforeExpiryMs)
      }
      await expect
        .poll(() => fleet.running.every(({ owned }) => owned.size > 0), { timeout: settledWithinMs })
        .toBe(true)
      await kill(({ isCoordinator }) => !isCoordinator)
      await kill(({ isCoordinator }) => isCoordinator)
      await fleet.leave(fleet.running[0] ?? expect.unreachable('nobody is left'))
      expect(fleet.check().violations).toEqual([])
      expect(fleet.badEnds).toEqual([])
    },
  )
})
