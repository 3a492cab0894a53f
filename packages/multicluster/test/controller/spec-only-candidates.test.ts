/** Tests of spec-only candidates, which know only the fields of the spec. */
import { expect, test } from 'vitest'
import { attemptOf } from '../../src/relay/spec-only-candidate.ts'
import { relayedStore } from '../../../tenure/src/multicluster/relayed-store.ts'
import { call, key, twoClusters } from '../two-clusters.ts'

test('a relay renews the lease when the heartbeat of a spec-only candidate changes, and only then', async () => {
  const { clock, east, record } = twoClusters()
  const first = await east.beat('a')
  await clock.advance(100)
  const granted = await record()
  expect(granted).toMatchObject({ holder: 'east/a', term: 1, leaseDurationMs: 30_000 })
  expect((await east.shown()).status).toMatchObject({ leader: 'a', term: 1, observedGeneration: first.generation })
  await clock.advance(10_000)
  expect((await record())?.version).toBe(granted?.version)
  // A change of another field of the spec is not a heartbeat, so the relay confirms nothing for it.
  await east.resources.patchSpec(key, { leaseDurationSeconds: 20, requests: {} }, call)
  await clock.advance(100)
  expect((await record())?.version).toBe(granted?.version)
  expect((await east.shown()).status.observedGeneration).toBe(first.generation)
  const second = await east.beat('a')
  await clock.advance(100)
  expect(await record()).toMatchObject({ term: 1, attempt: granted?.attempt })
  expect((await record())?.version).not.toBe(granted?.version)
  expect((await east.shown()).status.observedGeneration).toBe(second.generation)
})

test('a spec-only candidate gets a new term after the relay has observed that its lease expired', async () => {
  const { clock, east, record } = twoClusters()
  await east.beat('a')
  await clock.advance(40_000)
  expect((await east.shown()).status.leader).toBe('')
  await east.beat('a')
  await clock.advance(100)
  expect(await record()).toMatchObject({ holder: 'east/a', term: 2 })
})

test('a heartbeat with an empty identity releases the lease only in the cluster that holds it', async () => {
  const { clock, east, west, record } = twoClusters()
  await east.beat('a')
  await clock.advance(100)
  await west.beat('')
  await clock.advance(100)
  expect(await record()).toMatchObject({ holder: 'east/a', released: false })
  await east.beat('')
  await clock.advance(100)
  expect(await record()).toMatchObject({ holder: 'east/a', released: true })
  expect((await east.shown()).status.leader).toBe('')
  expect(east.changes.map(({ change }) => change)).toEqual(['elected', 'released', 'moved'])
})

test('a recreated resource does not inherit the grant of the deleted one', async () => {
  const { clock, east, record } = twoClusters()
  await east.beat('a')
  await clock.advance(100)
  east.resources.delete(key)
  const again = await east.beat('a')
  await clock.advance(100)
  expect(await record()).toMatchObject({ term: 1 })
  // The status shows the candidate's own name, but no confirmation.
  expect((await east.shown()).status.observedGeneration ?? 0).toBeLessThan(again.generation)
})

test('a relay does not confirm a heartbeat that another candidate has overwritten', async () => {
  const { clock, east } = twoClusters()
  const own = await east.beat('a')
  await clock.advance(100)
  expect((await east.shown()).status.observedGeneration).toBe(own.generation)
  await east.beat('a')
  const other = await east.beat('b')
  await clock.advance(1_000)
  const { status } = await east.shown()
  expect(status.leader).toBe('a')
  expect(status.observedGeneration).toBeLessThan(other.generation - 1)
})

test('a relay discards a confirmation that it cannot write within a tenth of the lease, and repeats the call', async () => {
  let holdBack = false
  const waiting: (() => void)[] = []
  const { clock, east, record } = twoClusters({
    through: (resources) => ({
      ...resources,
      async patchStatus(...args) {
        if (holdBack) await new Promise<void>((resolve) => waiting.push(resolve))
        return holdBack ? undefined : resources.patchStatus(...args)
      },
    }),
  })
  await east.beat('a')
  await clock.advance(100)
  holdBack = true
  const beat = await east.beat('a')
  await clock.advance(100)
  const renewed = await record()
  await clock.advance(3_000)
  expect((await east.shown()).status.observedGeneration).toBeLessThan(beat.generation)
  holdBack = false
  for (const resume of waiting) resume()
  await clock.advance(3_000)
  expect((await record())?.version).not.toBe(renewed?.version)
  expect((await east.shown()).status.observedGeneration).toBe(beat.generation)
})

test('a condition reports a resource that has both a spec-only candidate and requests, and the requests are still served', async () => {
  const { clock, east, record } = twoClusters()
  const { elector } = east.candidate('a')
  await clock.advance(1_000)
  expect(await east.condition('Ready')).toMatchObject({ status: 'True', reason: 'Relaying' })
  const beat = await east.beat('b')
  await clock.advance(1_000)
  expect(await east.condition('Ready')).toMatchObject({ status: 'False', reason: 'MixedCandidates' })
  expect((await east.shown()).status.observedGeneration).toBeLessThan(beat.generation)
  await clock.advance(30_000)
  expect(elector.isLeader()).toBe(true)
  expect(await record()).toMatchObject({ holder: 'east/a', term: 1 })
  await clock.advance(90_000)
  expect(await east.condition('Ready')).toMatchObject({ status: 'True', reason: 'Relaying' })
})

test('the Ready condition reports a heartbeat with an invalid identity as a malformed request', async () => {
  const { clock, east, record } = twoClusters()
  await east.beat('west/a')
  await clock.advance(100)
  expect(await east.condition('Ready')).toMatchObject({ status: 'False', reason: 'MalformedRequest' })
  expect(await record()).toBeUndefined()
})

test('a reader does not take leadership from a spec-only candidate', async () => {
  const { clock, east } = twoClusters()
  await east.beat('a')
  await clock.advance(1_000)
  const reader = relayedStore(east.resources, key.namespace, clock)
  const found = reader.read(key.name, call)
  await clock.advance(1_000)
  expect(await found).toMatchObject({ holder: 'a', term: 1 })
  const { generation } = await east.beat('a')
  await clock.advance(1_000)
  expect((await east.shown()).status).toMatchObject({ leader: 'a', term: 1, observedGeneration: generation })
  expect(await east.condition('Ready')).toMatchObject({ status: 'True' })
})

test('a refused heartbeat is served again after the lease is released, while its candidate still waits', async () => {
  const { clock, east, west, record } = twoClusters()
  await east.beat('a')
  await clock.advance(100)
  const refused = await west.beat('b')
  await clock.advance(5_000)
  expect((await west.shown()).status).toMatchObject({ leader: 'east/a', observedGeneration: refused.generation })
  await east.beat('')
  // This is less than the interval at which the relay in the west polls the store.
  await clock.advance(6_500)
  expect(await record()).toMatchObject({ holder: 'west/b', term: 2, released: false })
  expect((await west.shown()).status).toMatchObject({ leader: 'b', term: 2, observedGeneration: refused.generation })
})

test('a refused heartbeat is not served again once its lease duration has passed', async () => {
  const { clock, east, west, record } = twoClusters()
  await east.beat('a')
  await clock.advance(100)
  await west.beat('b')
  await clock.advance(14_000)
  await east.beat('a')
  await clock.advance(2_000)
  await east.beat('')
  await clock.advance(12_000)
  expect(await record()).toMatchObject({ holder: 'east/a', term: 1, released: true })
})

test('a lease that a delayed call grants to a refused heartbeat does not confirm the generation of that heartbeat', async () => {
  const { clock, east, west, store } = twoClusters()
  await east.beat('a')
  await clock.advance(100)
  const refused = await west.beat('b')
  await clock.advance(5_000)
  const { renewTime = '' } = refused.spec
  const beat = { identity: 'b', generation: refused.generation, renewTime, leaseDurationMs: 15_000 }
  // The lease of the refused heartbeat has expired. A delayed call now grants it to a candidate that may still be
  // waiting.
  await clock.advance(11_000)
  await east.beat('')
  await clock.advance(100)
  const attempt = attemptOf(refused.uid, beat)
  const claim = { election: 'jobs/nightly', holder: 'west/b', attempt, leaseDurationMs: 30_000, afterTerm: 1 }
  expect(await store.acquire({ ...claim, metadata: {} }, call)).toMatchObject({ ok: true })
  await clock.advance(7_000)
  expect((await west.shown()).status).toMatchObject({ leader: 'b', term: 2, observedGeneration: 0 })
})
