import { expect, test } from 'vitest'
import { requestHandOver, type HandOverOutcome } from '../../../src/engine/members/request-hand-over.ts'
import * as library from '../../../src/index.ts'
import { group, leaseMs, PresentFleet, storeKinds } from './present-fleet.ts'

/** Sends a request and advances the clock until it has settled. */
async function request(fleet: PresentFleet, to: string, waitMs = 30_000): Promise<HandOverOutcome> {
  const { store, clock } = fleet
  const { signal } = new AbortController()
  const asked = { election: group, to, identity: 'admin', waitMs, timeoutMs: 1_000, clock, signal }
  const [outcome] = await Promise.all([requestHandOver(store, asked), fleet.advance(waitMs * 1.5)])
  return outcome
}

test.each(storeKinds)(
  'a handover request returns the term in which the candidate leads, and gives up its seat (%s store)',
  async (kind) => {
    const fleet = new PresentFleet(library, kind)
    fleet.start()
    await fleet.advance(1_000)
    fleet.start()
    fleet.start()
    await fleet.advance(leaseMs)
    expect(await request(fleet, 'node-2')).toEqual({ result: 'handed-over', term: 2 })
    expect(await request(fleet, 'node-2')).toEqual({ result: 'already-leads', term: 2 })
    const seat = await fleet.store.read(`${group}.member.3`, { signal: new AbortController().signal, timeoutMs: 1_000 })
    expect(seat).toMatchObject({ holder: 'admin', released: true })
    expect((await fleet.members()).map(({ identity }) => identity).toSorted()).toEqual(['node-0', 'node-1', 'node-2'])
    await fleet.stopAll()
  },
)

test.each(storeKinds)('a handover request says why nothing was handed over (%s store)', async (kind) => {
  const fleet = new PresentFleet(library, kind)
  expect(await request(fleet, 'node-1')).toEqual({ result: 'no-leader' })
  const absent = fleet.start({ present: false })
  await fleet.advance(1_000)
  fleet.start({ eligible: () => false })
  fleet.start()
  await fleet.advance(leaseMs)
  expect(await request(fleet, 'node-9')).toEqual({ result: 'not-present' })
  expect(await request(fleet, 'node-1')).toEqual({ result: 'not-eligible' })
  const noReaction = { result: 'no-reaction', holder: 'node-0', term: 1, isPresent: false, isCandidateLive: true }
  expect(await request(fleet, 'node-2')).toEqual(noReaction)
  expect(absent.elector.isLeader()).toBe(true)
  await fleet.stopAll()
})

test('a handover request for a crashed candidate says that the candidate is not present', async () => {
  const fleet = new PresentFleet(library, 'compare-and-swap')
  fleet.start()
  await fleet.advance(1_000)
  const crashed = fleet.start()
  await fleet.advance(leaseMs)
  fleet.crash(crashed)
  await fleet.advance(leaseMs * 2)
  // One read cannot tell, but the leader has observed its seat.
  expect(await request(fleet, crashed.identity, leaseMs * 1.1)).toEqual({ result: 'not-present' })
  expect(await request(fleet, crashed.identity, 1_000)).toMatchObject({ result: 'no-reaction', isCandidateLive: false })
  expect(fleet.processes[0]?.elector.isLeader()).toBe(true)
  await fleet.stopAll()
})

test.each(storeKinds)('a handover request takes no seat that the members do not read (%s store)', async (kind) => {
  const fleet = new PresentFleet(library, kind, { maxMembers: 2 })
  fleet.start()
  await fleet.advance(1_000)
  const named = fleet.start()
  await fleet.advance(leaseMs)
  const outcome = await request(fleet, named.identity)
  const message = expect.stringContaining('It has not asked the leader to hand over, and takes a seat')
  expect(outcome).toMatchObject({ result: 'no-seat', problem: { code: 'SEATS_EXHAUSTED', message } })
  await fleet.stopAll()
})

test('a request says that nobody leads if the candidate does not take over in time', async () => {
  const fleet = new PresentFleet(library, 'compare-and-swap')
  fleet.start()
  await fleet.advance(1_000)
  const candidate = fleet.start()
  await fleet.advance(leaseMs)
  // The leader still sees its seat.
  candidate.isCut = true
  const outcome = await request(fleet, candidate.identity, leaseMs / 2)
  expect(outcome).toEqual({ result: 'nobody-leads', holder: 'node-0', term: 1 })
  candidate.isCut = false
  await fleet.stopAll()
})
