/** Mistakes of the reference implementation that this implementation does not make. */
import { expect, test } from 'vitest'
import { key, twoClusters } from '../two-clusters.ts'

test('a clean stop hands leadership over within a second (the reference implementation never releases the backend lock)', async () => {
  const { clock, east, west, record } = twoClusters()
  const first = east.candidate('a').elector
  await clock.advance(100)
  const second = west.candidate('b').elector
  await clock.advance(20_000)
  expect([first.isLeader(), second.isLeader()]).toEqual([true, false])
  void first.stop()
  await clock.advance(1_000)
  expect(second.isLeader()).toBe(true)
  expect(await record()).toMatchObject({ holder: 'west/b', term: 2 })
})

test('a live leader keeps its lease when its resource is deleted, and a dead leader loses it (the reference implementation leaves the lock behind)', async () => {
  const { clock, east, west, leaseDurationMs } = twoClusters()
  const { elector, die } = east.candidate('a')
  await clock.advance(100)
  const other = west.candidate('b').elector
  await clock.advance(1_000)
  east.resources.delete(key)
  await clock.advance(3 * leaseDurationMs)
  expect(elector.isLeader()).toBe(true)
  expect((await east.shown()).status).toMatchObject({ leader: 'a', term: 1 })
  die()
  east.resources.delete(key)
  // The last renewal was up to a third of a lease ago.
  await clock.advance(leaseDurationMs + 1_000)
  expect([elector.isLeader(), other.isLeader()]).toEqual([false, true])
})

test('a wall clock that is an hour ahead in one cluster has no effect (the reference implementation compares wall clocks)', async () => {
  const ahead = 3_600_000
  const { clock, east, west, leaseDurationMs } = twoClusters({
    westClock: (own) => ({ ...own, wallMs: () => own.wallMs() + ahead }),
  })
  const { elector, die } = east.candidate('a')
  await clock.advance(100)
  const other = west.candidate('b').elector
  await clock.advance(10 * leaseDurationMs)
  expect([elector.isLeader(), other.isLeader()]).toEqual([true, false])
  die()
  await clock.advance(leaseDurationMs / 2)
  expect(other.isLeader()).toBe(false)
  await clock.advance(leaseDurationMs / 2 + 1_000)
  expect(other.isLeader()).toBe(true)
})

test('a candidate judges expiry by the duration of the lease (the reference implementation uses the duration of the candidate)', async () => {
  const { clock, east, west } = twoClusters()
  const { die } = east.candidate('a', { leaseDurationMs: 60_000 })
  await clock.advance(100)
  const other = west.candidate('b', { leaseDurationMs: 5_000 }).elector
  await clock.advance(1_000)
  die()
  await clock.advance(58_000)
  expect(other.isLeader()).toBe(false)
  await clock.advance(3_000)
  expect(other.isLeader()).toBe(true)
})

test('a relay does not renew the lease of a dead pod (the reference implementation renews it for two more leases)', async () => {
  const { clock, east, record, leaseDurationMs } = twoClusters()
  const { die } = east.candidate('a')
  await clock.advance(2 * leaseDurationMs)
  die()
  // A request that is already in the resource may still be carried out.
  await clock.advance(100)
  const { version } = (await record()) ?? {}
  await clock.advance(10 * leaseDurationMs)
  expect((await record())?.version).toBe(version)
})

test('a candidate that stopped renewing is reported as silent (the reference implementation reports a broken backend)', async () => {
  const { clock, east, leaseDurationMs } = twoClusters()
  const { die } = east.candidate('a')
  await clock.advance(2 * leaseDurationMs)
  expect(await east.condition('CandidateAlive')).toMatchObject({ status: 'True', reason: 'Asking' })
  die()
  await clock.advance(6 * leaseDurationMs)
  expect(await east.condition('CandidateAlive')).toMatchObject({ status: 'False', reason: 'Silent' })
  expect(await east.condition('BackendHealthy')).toMatchObject({ status: 'True', reason: 'Answering' })
  expect(await east.condition('Leading')).toMatchObject({ status: 'False', reason: 'NobodyLeads' })
})

test('a lock accepts only the answer to its own request (the reference implementation accepts a cached status)', async () => {
  let holdBack = false
  const { clock, east, leaseDurationMs } = twoClusters({
    // The relay no longer sees new requests, so every status that a candidate reads is stale.
    through: (resources) => ({
      ...resources,
      async *watch(of, options) {
        for await (const change of resources.watch(of, options)) if (!holdBack) yield change
      },
    }),
  })
  const { elector } = east.candidate('a')
  await clock.advance(2 * leaseDurationMs)
  expect(elector.isLeader()).toBe(true)
  expect((await east.shown()).status.leader).toBe('a')
  holdBack = true
  await clock.advance(leaseDurationMs)
  expect((await east.shown()).status.record).toMatchObject({ holder: 'a', released: false })
  expect(elector.isLeader()).toBe(false)
})

test('each local candidate has its own request slot (in the reference implementation, candidates overwrite each other)', async () => {
  const { clock, east, leaseDurationMs } = twoClusters()
  const electors = ['a', 'b', 'c', 'd'].map((identity) => east.candidate(identity).elector)
  await clock.advance(20 * leaseDurationMs)
  expect(electors.filter((elector) => elector.isLeader())).toHaveLength(1)
  const { spec, status } = await east.shown()
  expect(Object.keys(spec.requests)).toHaveLength(4)
  expect(status.term).toBe(1)
})

test('the fencing term rises with every grant, even in a new resource (the reference implementation counts transitions)', async () => {
  const { clock, east, west, leaseDurationMs } = twoClusters()
  const terms: number[] = []
  for (let round = 0; round < 3; round += 1) {
    for (const cluster of [east, west]) {
      const { elector } = cluster.candidate('a')
      await clock.advance(1_000)
      const { term } = await elector.waitForLeadership()
      expect((await cluster.shown()).status.term).toBe(term)
      terms.push(term)
      void elector.stop()
      await clock.advance(1_000)
      cluster.resources.delete(key)
    }
    await clock.advance(leaseDurationMs)
  }
  expect(terms).toEqual(terms.toSorted((a, b) => a - b))
  expect(new Set(terms).size).toBe(6)
})

test('only one of two pods with the same name in two clusters reads its own name as the leader (the reference implementation confuses them)', async () => {
  const { clock, east, west } = twoClusters()
  await east.beat('pod-0')
  await clock.advance(200)
  const asked = await west.beat('pod-0')
  await clock.advance(200)
  expect((await east.shown()).status).toMatchObject({ leader: 'pod-0', globalHolderIdentity: 'pod-0', cluster: 'east' })
  const { status } = await west.shown()
  expect(status).toMatchObject({ leader: 'east/pod-0', globalHolderIdentity: 'east/pod-0', cluster: 'east' })
  expect(status.observedGeneration).toBe(asked.generation)
})
