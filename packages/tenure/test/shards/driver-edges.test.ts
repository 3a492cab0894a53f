import { expect, test } from 'vitest'
import { Elector } from '../../src/index.ts'
import type { ShardContext } from '../../src/shards/index.ts'
import { leaseMs, ShardFleet, storeKinds, takeoverMs, type ShardProcess } from './shard-fleet.ts'

test('a process with unsettled work on one shard does not release its seat while the work on another shard runs', async () => {
  const drainTimeoutMs = 5_000
  const fleet = new ShardFleet('memory', 4, { drainTimeoutMs })
  const running = new Set<number>()
  let finish = (): void => undefined
  const finished = new Promise<void>((resolve) => (finish = resolve))
  let isFirst = true
  const ada: ShardProcess = fleet.join('ada', {
    async work({ shard, signal }: ShardContext) {
      running.add(shard)
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      // The first shard that is taken away settles just too late, and all others when the test says so.
      const isSlow = isFirst
      isFirst = false
      if (isSlow) await new Promise<void>((resolve) => ada.clock.setTimer(drainTimeoutMs, resolve))
      else await finished
      running.delete(shard)
    },
  })
  await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
  fleet.join('bob')
  await fleet.until(() => fleet.log.some((line) => line.includes('WORK_UNSETTLED')), 4 * leaseMs)
  await fleet.advance(leaseMs / 3)
  expect(running.size).toBeGreaterThan(0)
  expect((await fleet.read('sessions.member.0'))?.released).toBe(false)
  finish()
  await fleet.until(() => fleet.isSettled(), 6 * leaseMs)
})

test.each(storeKinds)(
  'a coordinator with a smaller maxMembers grants shards to members beyond it (%s)',
  async (kind) => {
    const fleet = new ShardFleet(kind, 4)
    fleet.join('ada', { maxMembers: 1 })
    await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
    const bob = fleet.join('bob', { maxMembers: 4 })
    await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
    expect(bob.shards.status().seat).toBe(1)
    // A recovery must wait for such members too. S1 and S2 are checked all the time.
    fleet.delete('sessions')
    await fleet.advance(leaseMs)
    await fleet.until(() => fleet.isSettled(), 6 * leaseMs)
    fleet.crash(bob)
    // The recovery may have made the process that crashes the coordinator.
    expect(await fleet.until(() => fleet.isSettled(), 4 * leaseMs)).toBeLessThan(takeoverMs + leaseMs)
  },
)

test.each([
  { what: 'by a request to hand over', metadata: { maxMembers: 32, metadata: {}, handOverTo: 'ada', ofTerm: 1 } },
  { what: 'by a client that is not a member', metadata: {} },
])('no shard is granted to a seat that is held $what', async ({ metadata }) => {
  const fleet = new ShardFleet('memory', 4)
  const { store, clock } = fleet
  const elector = new Elector({
    store,
    election: 'sessions.member.0',
    metadata,
    leaseDurationMs: leaseMs,
    clock,
    log: false,
  })
  elector.start()
  await fleet.advance(100)
  expect(elector.isLeader()).toBe(true)
  const ada = fleet.join('ada')
  await fleet.until(() => ada.shards.status().owned.length === 4, 2 * leaseMs)
  await fleet.advance(2 * leaseMs)
  expect(ada.shards.status().owned).toHaveLength(4)
  void elector.stop()
  await fleet.advance(100)
})

test('a shard that was revoked when the seat was lost is reported as lost', async () => {
  const fleet = new ShardFleet('memory', 2, { drainTimeoutMs: 10 * leaseMs })
  const ada = fleet.join('ada')
  ada.settleMs = 5 * leaseMs
  await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
  fleet.join('bob')
  await fleet.until(() => ada.changes.some(({ type }) => type === 'revoked'), 4 * leaseMs)
  ada.isCut = true
  await fleet.until(() => ada.changes.some(({ type }) => type === 'lost'), 2 * leaseMs)
  const of = (type: string) =>
    ada.changes.flatMap((change) => (change.type === type && 'shard' in change ? [change.shard] : []))
  expect(of('lost').toSorted()).toEqual(of('gained').toSorted())
})

test('a process that stalls while it gains shards reports each of them as lost', async () => {
  const fleet = new ShardFleet('memory', 3)
  const ada: ShardProcess = fleet.join('ada', {
    observer: {
      onShard(change) {
        ada.changes.push(change)
        if (change.type !== 'gained' || change.shard !== 0) return
        // The lease expires while this function runs, and the leadership ends when the clock is next read.
        fleet.clock.sleep(2 * leaseMs)
        ada.shards.owns('any')
      },
    },
  })
  await fleet.until(() => ada.changes.some(({ type }) => type === 'lost'), 4 * leaseMs)
  await fleet.advance(1_000)
  const types = ada.changes.flatMap((change) => ('shard' in change ? [`${change.type} ${change.shard}`] : []))
  expect(types.filter((type) => type.startsWith('revoked'))).toEqual([])
  expect(types.filter((type) => type.startsWith('lost')).length).toBe(
    types.filter((type) => type.startsWith('gained')).length,
  )
})

test.each(storeKinds)('a single process that is restarted owns all shards again at once (%s store)', async (kind) => {
  const fleet = new ShardFleet(kind, 4)
  const first = fleet.join('ada')
  await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
  await fleet.leave(first)
  fleet.join('ada')
  expect(await fleet.until(() => fleet.isSettled(), 4 * leaseMs)).toBeLessThan(leaseMs / 2)
})
