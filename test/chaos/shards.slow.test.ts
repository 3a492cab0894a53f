import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { temporaryFolder } from '../../packages/cli/test/temporary-folder.ts'
import { buildMutant } from '../mutants/mutant.ts'
import { leaseDurationMs, runShards, settledWithinMs, shardsTimeout as timeout } from './shard-faults.ts'
import { ShardFleet } from './shard-fleet.ts'

const urlAt = () => `file://${join(temporaryFolder(), 'leases')}`

test('processes on files never share a shard, and own all shards again, whatever fails', { timeout }, async () => {
  const url = urlAt()
  await runShards({ name: 'files', urlAt: () => url }, 'small')
})

/** Waits until the logs show a violation. */
async function violated(fleet: ShardFleet): Promise<void> {
  const { violations } = await vi.waitUntil(
    () => {
      const check = fleet.check()
      return check.violations.length > 0 && check
    },
    { timeout: settledWithinMs, interval: 100 },
  )
  expect(violations[0]).toMatch(/two owners/)
}

/** Starts a fleet of a mutant. Its work settles much later than a shard is granted. */
async function fleetOf(mutation: { file: string; find: string; replace: string }): Promise<ShardFleet> {
  const library = join(await buildMutant('tenure', [mutation]), 'dist')
  const url = urlAt()
  // Below the drain timeout of a member.
  const settleMs = 4_000
  return ShardFleet.start({ size: 2, shards: 8, keys: 8, leaseDurationMs, urlAt: () => url, library, settleMs })
}

test('the logs show that a shard was handed over before its work had settled', { timeout }, async () => {
  const fleet = await fleetOf({
    file: 'shards/coordinator.ts',
    find: 'return isKnown && report.seen >= shard.since && !report.running.includes(number)',
    replace: 'return isKnown && report.seen >= shard.since',
  })
  const [first, second] = fleet.slots
  if (first) fleet.join(first)
  await fleet.ownedMs(settledWithinMs)
  // Half of the shards move to the second process.
  if (second) fleet.join(second)
  await violated(fleet)
})

test('the logs show that a process owned shards by the assignment alone', { timeout }, async () => {
  const fleet = await fleetOf({
    file: 'shards/member-driver.ts',
    find: 'return this.#held?.leadership.isLeader() ?? false',
    replace: 'return this.#held !== undefined',
  })
  for (const slot of fleet.slots) fleet.join(slot)
  await fleet.settledMs(settledWithinMs)
  const paused = fleet.slots.find(({ isCoordinator }) => !isCoordinator)
  const owned = [...(paused?.owned.keys() ?? [])]
  paused?.child?.kill('SIGSTOP')
  const other = fleet.slots.find((slot) => slot !== paused)
  await vi.waitUntil(() => owned.every((shard) => other?.owned.has(shard)), { timeout: settledWithinMs, interval: 20 })
  paused?.child?.kill('SIGCONT')
  await violated(fleet)
})
