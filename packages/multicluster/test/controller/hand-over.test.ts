import { expect, test } from 'vitest'
import { globalRecord, relayedRecord } from '../../../tenure/src/multicluster/protocol/answer-codec.ts'
import { call, twoClusters } from '../two-clusters.ts'

/** The leader is `a` in the cluster `east`. Candidates of both clusters wait, some of them with the same identity. */
async function ledByEast() {
  const clusters = twoClusters()
  const { clock, east, west } = clusters
  const candidates = new Map([['east/a', east.candidate('a').elector]])
  await clock.advance(1_000)
  for (const identity of ['b', 'c']) candidates.set(`east/${identity}`, east.candidate(identity).elector)
  for (const identity of ['a', 'b', 'c']) candidates.set(`west/${identity}`, west.candidate(identity).elector)
  await clock.advance(1_000)
  const leader = () => [...candidates].find(([, elector]) => elector.isLeader())?.[0]
  expect(leader()).toBe('east/a')
  const stepDown = async (to: string) => {
    await Promise.all([candidates.get('east/a')?.stepDown({ to }), clock.advance(1_000)])
  }
  return { ...clusters, candidates, leader, stepDown }
}

test.each([
  ['c', 'east/c'],
  ['west/c', 'west/c'],
  // The same identity as the leader's, in another cluster.
  ['west/a', 'west/a'],
])('a leader in the cluster east that hands over to %s is followed by %s', async (to, next) => {
  const { leader, stepDown, record } = await ledByEast()
  await stepDown(to)
  expect(leader()).toBe(next)
  expect(await record()).not.toHaveProperty('successor')
})

test('candidates of both clusters leave the lease to a successor that does not exist for one retry interval', async () => {
  const { clock, candidates, leader, stepDown, record } = await ledByEast()
  await stepDown('west/gone')
  expect(await record()).toMatchObject({ released: true, successor: 'west/gone' })
  expect(candidates.get('east/b')?.explain()).toMatchObject({ heldBackBy: 'successor' })
  expect(candidates.get('west/b')?.explain().summary).toContain('to "gone"')
  await clock.advance(2_000)
  expect(leader()).toBeDefined()
})

test.each(['east/a', 'EAST/b', 'west/', '/b', 'a/b/c'])(
  'a release across clusters drops the successor %s, because no other candidate has that name',
  async (to) => {
    const { leader, stepDown } = await ledByEast()
    await stepDown(to)
    expect(leader()).not.toBe('east/a')
    expect(leader()).toBeDefined()
  },
)

test('a successor is shown in the same form as a holder, and can be read back from that form', async () => {
  const { store } = twoClusters()
  const base = { election: 'jobs/nightly', holder: 'east/a', attempt: '1', leaseDurationMs: 15_000 }
  const claim = { ...base, afterTerm: 0, metadata: {}, writeId: '1' }
  const granted = await store.acquire(claim, call)
  if (!granted.ok) throw new Error('the lease is held')
  for (const [successor, shown] of [
    ['east/b', 'b'],
    ['west/b', 'west/b'],
    ['b', '/b'],
  ] as const) {
    const record = { ...granted.record, released: true, successor }
    const relayed = relayedRecord(record, 'east')
    expect(relayed.successor).toBe(shown)
    expect(globalRecord(relayed, { cluster: 'east', election: 'jobs/nightly' }).successor).toBe(successor)
  }
})
