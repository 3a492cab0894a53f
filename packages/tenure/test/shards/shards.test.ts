import { expect, onTestFinished, test, vi } from 'vitest'
import { memoryStore } from '../../src/index.ts'
import {
  createShards,
  NotOwnerError,
  type AssignmentReport,
  type HoldContext,
  type ShardChange,
} from '../../src/shards/index.ts'
import { follow } from '../promise-outcome.ts'
import { leaseMs, ShardFleet, takeoverMs, type ShardProcess } from './shard-fleet.ts'

async function fleetOf(names: readonly string[], shards = 4, options = {}) {
  const fleet = new ShardFleet('memory', shards, options)
  const processes = names.map((name) => fleet.join(name))
  await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
  return { fleet, processes }
}

/** A key whose shard the process owns. */
function keyOf({ shards }: ShardProcess): string {
  const key = Array.from({ length: 100 }, (_, index) => `key-${index}`).find((one) => shards.owns(one))
  if (key === undefined) throw new Error('the process owns nothing')
  return key
}

test('start resolves when the first assignment was seen, and rejects a second call', async () => {
  const { processes } = await fleetOf(['ada'])
  const [ada] = processes
  expect(await ada?.started).toBeUndefined()
  await expect(ada?.shards.start()).rejects.toMatchObject({ code: 'ALREADY_STARTED' })
})

test('hold rejects with NOT_OWNER and the owner if the key belongs to another process', async () => {
  const { fleet, processes } = await fleetOf(['ada', 'bob'])
  const [ada, bob] = processes as [ShardProcess, ShardProcess]
  await fleet.advance(1_000)
  const error = await bob.shards.hold(keyOf(ada), () => undefined).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(NotOwnerError)
  expect(error).toMatchObject({ code: 'NOT_OWNER', owner: { identity: 'ada', metadata: { address: 'http://ada' } } })
})

test('a hold keeps its shard from being handed over until its function has settled', async () => {
  const { fleet, processes } = await fleetOf(['ada', 'bob'])
  const [ada] = processes as [ShardProcess, ShardProcess]
  const key = keyOf(ada)
  let finish = (): void => undefined
  const held = follow(
    ada.shards.hold(key, async ({ signal }) => {
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve))
      await new Promise<void>((resolve) => (finish = resolve))
      signal.throwIfAborted()
    }),
  )
  void ada.shards.stop().then(() => (ada.hasStopped = true))
  await fleet.advance(leaseMs)
  expect(fleet.processes[1]?.shards.owns(key)).toBeUndefined()
  expect(ada.hasStopped).toBe(false)
  finish()
  await fleet.until(() => fleet.processes[1]?.shards.owns(key) !== undefined, leaseMs)
  expect(held).toMatchObject({ state: 'rejected', error: { code: 'NOT_OWNER' } })
  await fleet.until(() => ada.hasStopped, leaseMs)
})

test('Node.js does not warn about a leak when many keys of one shard are held', async () => {
  const { processes } = await fleetOf(['ada'])
  const [ada] = processes as [ShardProcess]
  const key = keyOf(ada)
  const { signal } = await new Promise<HoldContext>((resolve) => void ada.shards.hold(key, resolve))
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
  onTestFinished(() => warn.mockRestore())
  for (let count = 0; count < 20; count += 1) signal.addEventListener('abort', () => undefined)
  expect(warn).not.toHaveBeenCalled()
})

test('a process with other settings does not join, and its start rejects with INVALID_OPTION', async () => {
  const { fleet } = await fleetOf(['ada'])
  const eve = fleet.join('eve', { shards: 5 })
  await fleet.advance(1_000)
  expect(await eve.started).toMatchObject({ code: 'INVALID_OPTION', option: 'shards' })
  await fleet.advance(leaseMs)
  expect(eve.shards.status()).toMatchObject({ phase: 'stopped', owned: [] })
  expect(await fleet.read('sessions.member.1')).toBeUndefined()
})

test('work that fails is reported and started again while the shard is owned', async () => {
  let calls = 0
  const fleet = new ShardFleet('memory', 1, {
    work: async () => {
      calls += 1
      if (calls < 3) throw new Error('the database is down')
    },
  })
  fleet.join('ada')
  await fleet.until(() => calls === 3, 4 * leaseMs)
  await fleet.advance(leaseMs)
  expect(calls).toBe(3)
  const failure = 'The work on shard 0 of "sessions" failed: the database is down'
  expect(fleet.log.filter((line) => line.includes(failure))).not.toEqual([])
})

test('work that does not settle is reported once, and its shards go to others after the lease has expired', async () => {
  const { fleet, processes } = await fleetOf(['ada', 'bob'], 4, { drainTimeoutMs: 5_000 })
  const [ada, bob] = processes as [ShardProcess, ShardProcess]
  ada.settleMs = Infinity
  void ada.shards.stop().then(() => (ada.hasStopped = true))
  await fleet.until(() => ada.hasStopped, 2 * leaseMs)
  const isUnsettled = (line: string) => line.includes('WORK_UNSETTLED')
  expect(fleet.log.some(isUnsettled)).toBe(true)
  expect((await fleet.read('sessions.member.0'))?.released).toBe(false)
  await fleet.until(() => bob.shards.status().owned.length === 4, takeoverMs + leaseMs)
})

test('a seat that is left because of one shard is not released while the work on another one still runs', async () => {
  // The work on the first shard that is taken away settles as soon as the signal of the other one aborts, which is when
  // this process leaves its seat. The work on the other shard takes longer.
  let end = (): void => undefined
  const endOfAny = new Promise<void>((resolve) => (end = resolve))
  let aborted = 0
  const fleet = new ShardFleet('memory', 2, { drainTimeoutMs: 5_000 })
  const ada = fleet.join('ada', {
    work: async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      aborted += 1
      if (aborted === 1) return endOfAny
      end()
      return new Promise(() => undefined)
    },
  })
  await fleet.until(() => ada.shards.status().owned.length === 2, 4 * leaseMs)
  fleet.join('bob')
  await fleet.until(() => aborted === 2, 4 * leaseMs)
  await fleet.advance(1_000)
  expect((await fleet.read('sessions.member.0'))?.released).toBe(false)
})

test('a process whose work has not settled takes no other seat, and joins again once it has', async () => {
  const { fleet, processes } = await fleetOf(['ada', 'bob'])
  const [ada] = processes as [ShardProcess, ShardProcess]
  ada.settleMs = 3 * leaseMs
  ada.isCut = true
  await fleet.advance(leaseMs)
  ada.isCut = false
  await fleet.advance(leaseMs)
  expect(ada.shards.status()).toMatchObject({ phase: 'joining', seat: undefined })
  await fleet.until(() => fleet.isSettled(), 8 * leaseMs)
  expect(fleet.log.some((line) => line.startsWith('ada error') && line.includes('lost its seat'))).toBe(true)
  expect(fleet.log.some((line) => line.startsWith('ada warn') && line.includes('is a member of'))).toBe(true)
})

test('the only process stops without waiting for others', async () => {
  const { fleet, processes } = await fleetOf(['ada'])
  const [ada] = processes as [ShardProcess]
  void ada.shards.stop().then(() => (ada.hasStopped = true))
  expect(await fleet.until(() => ada.hasStopped, leaseMs)).toBeLessThan(1_000)
  expect(ada.working.size).toBe(0)
  expect(await fleet.read('sessions.member.0')).toMatchObject({ released: true })
  expect(await fleet.read('sessions')).toMatchObject({ released: true })
})

test('a deleted assignment is recovered, and tokens still rise', async () => {
  const { fleet } = await fleetOf(['ada', 'bob'])
  const tokens = () => fleet.live.flatMap(({ shards }) => shards.status().owned.map(({ token }) => token))
  const highest = Math.max(...tokens())
  fleet.delete('sessions')
  // S1 and S2 are checked all the time.
  await fleet.until(() => tokens().length === 4 && Math.min(...tokens()) > highest, 6 * leaseMs)
})

test('the number of writes per lease does not depend on the number of shards (S5)', async () => {
  const counts: number[] = []
  for (const shards of [4, 64]) {
    const { fleet } = await fleetOf(['ada', 'bob', 'eve'], shards)
    await fleet.advance(2 * leaseMs)
    fleet.writes.count = 0
    await fleet.advance(10 * leaseMs)
    counts.push(fleet.writes.count)
  }
  expect(counts[1]).toBe(counts[0])
  // Three renewals per lease for each of three seats and for the coordinator.
  expect(counts[0]).toBeLessThanOrEqual(10 * 3 * 4 + 4)
})

test('named shards are found by their names, and other keys are refused', async () => {
  const fleet = new ShardFleet('memory', 2, { shards: undefined, names: ['eu', 'us'] })
  const ada = fleet.join('ada')
  await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
  expect(ada.shards.owns('us')).toMatchObject({ shard: 1, name: 'us' })
  expect(() => ada.shards.owns('asia')).toThrow('it must be the name of a shard')
})

test('changes yields what this process gains and loses, and ends when it stops', async () => {
  const fleet = new ShardFleet('memory', 1)
  const ada = fleet.join('ada')
  const seen: ShardChange[] = []
  const reading = (async () => {
    for await (const change of ada.shards.changes()) seen.push(change)
  })()
  await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
  const token = ada.shards.owns('any key')?.token
  await fleet.leave(ada)
  await reading
  const shard = { shard: 0, name: undefined, token }
  expect(seen.filter(({ type }) => type !== 'members')).toEqual([
    { type: 'gained', ...shard },
    { type: 'revoked', ...shard, settleWithinMs: 30_000 },
    { type: 'lost', ...shard, reason: 'handed-over' },
  ])
})

test('a shard that was revoked is reported as lost when its process loses its seat before the work has settled', async () => {
  const { fleet, processes } = await fleetOf(['ada', 'bob'], 6)
  const [, bob] = processes as [ShardProcess, ShardProcess]
  bob.settleMs = 4 * leaseMs
  fleet.join('eve')
  const typesOf = (type: string) => bob.changes.flatMap((change) => (change.type === type ? [change] : []))
  await fleet.until(() => typesOf('revoked').length > 0, 3 * leaseMs)
  bob.isCut = true
  await fleet.until(() => bob.shards.status().phase === 'joining', 2 * leaseMs)
  const gained = new Set(typesOf('gained').map((change) => 'shard' in change && change.shard))
  const lost = typesOf('lost').map((change) => 'shard' in change && change.shard)
  expect(lost.toSorted()).toEqual([...gained].toSorted())
  expect(typesOf('lost')).toMatchObject(lost.map(() => ({ group: 'sessions', identity: 'bob', reason: 'seat-lost' })))
})

test('only the coordinator reports the assignment, with how long orphaned shards have had no owner', async () => {
  const reports: AssignmentReport[] = []
  const observer = { onAssignment: (report: AssignmentReport) => void reports.push(report) }
  const fleet = new ShardFleet('memory', 4)
  const ada = fleet.join('ada', { observer })
  await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
  const bob = fleet.join('bob', { observer })
  await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
  expect(ada.shards.status().isCoordinator).toBe(true)
  await fleet.advance(5_000)
  const none = { revoked: 0, free: 0, unknown: 0, orphaned: 0 }
  expect(reports.at(-1)).toEqual({
    group: 'sessions',
    identity: 'ada',
    members: 2,
    owned: 4,
    unowned: none,
    longestUnownedMs: none,
  })
  fleet.crash(bob)
  ada.fateOf = (verb, election) => ({ error: verb === 'acquire' && election.includes('.member.') })
  await fleet.until(() => (reports.at(-1)?.unowned.orphaned ?? 0) > 0, takeoverMs)
  await fleet.advance(10_000)
  expect(reports.at(-1)).toMatchObject({ members: 1, owned: 2, unowned: { ...none, orphaned: 2 } })
  expect(reports.at(-1)?.longestUnownedMs.orphaned).toBeGreaterThanOrEqual(8_000)
  ada.fateOf = () => ({})
  await fleet.until(() => fleet.isSettled(), takeoverMs)
  await fleet.advance(5_000)
  expect(reports.at(-1)).toMatchObject({ members: 1, owned: 4, unowned: none, longestUnownedMs: none })
  expect(new Set(reports.map(({ identity }) => identity))).toEqual(new Set(['ada']))
})

test('a coordinator whose member does not settle its work reports a shard that stays revoked for longer and longer', async () => {
  const reports: AssignmentReport[] = []
  const observer = { onAssignment: (report: AssignmentReport) => void reports.push(report) }
  const fleet = new ShardFleet('memory', 4, { drainTimeoutMs: 60_000, observer })
  const ada = fleet.join('ada')
  await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
  ada.settleMs = 50_000
  fleet.join('bob')
  await fleet.until(() => (reports.at(-1)?.unowned.revoked ?? 0) > 0, 3 * leaseMs)
  await fleet.advance(30_000)
  expect(reports.at(-1)?.unowned).toEqual({ revoked: 2, free: 0, unknown: 0, orphaned: 0 })
  expect(reports.at(-1)?.longestUnownedMs.revoked).toBeGreaterThan(25_000)
  await fleet.until(() => fleet.isSettled(), 30_000)
  await fleet.advance(5_000)
  expect(reports.at(-1)?.longestUnownedMs.revoked).toBe(0)
})

test('createShards refuses a lease that is not a whole number, and names that no checkpoint could keep', () => {
  const store = memoryStore()
  const fractional = () => createShards({ store, group: 'g', shards: 4, leaseDurationMs: 10_000 / 3 })
  expect(fractional).toThrow(expect.objectContaining({ code: 'INVALID_OPTION', option: 'leaseDurationMs' }))
  const names = Array.from({ length: 512 }, (_, number) => `${'n'.repeat(100)}${number}`)
  const tooLong = () => createShards({ store, group: 'g', names })
  expect(tooLong).toThrow(expect.objectContaining({ code: 'INVALID_OPTION', option: 'names' }))
})
