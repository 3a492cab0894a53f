import { fakeClock } from '@tenure/testing'
import { expect, test } from 'vitest'
import { Group, GroupLease } from '../../src/groups/in-memory-group.ts'
import { maxMetricsGroups, GroupMetrics } from '../../src/groups/group-metrics.ts'
import { held, open, pass } from './scene.ts'

const policy = { minTtlMs: 1_000, maxTtlMs: 60_000 }

function groupWithLease(id: string, untilMs: number): GroupLease {
  const group = new Group(id, 1)
  const grant = { term: 1, nodeId: 'a', attempt: 'x', metadata: '{}', acquiredAtMs: 0, ttlMs: 5_000 }
  group.lease = new GroupLease(group, grant, untilMs, { stalledMs: 0, startMs: 0 })
  return group.lease
}

test('a named group has metrics before anyone campaigns, and they follow its leader', async () => {
  const scene = await open({ metricsGroups: ['jobs'] })
  const shown = () => scene.state.groupMetrics()?.shown
  await pass(scene, 3_000)
  const nobody = { groupId: 'jobs', hasLeader: false, remainingMs: 0, standbys: 0 }
  expect(shown()).toEqual([{ ...nobody, term: 0, sinceChangeMs: 3_000 }])
  await scene.campaign('a')
  await scene.clock.advance(2_000)
  const led = { groupId: 'jobs', hasLeader: true, term: 1, standbys: 0 }
  expect(shown()).toEqual([{ ...led, remainingMs: 3_000, sinceChangeMs: 2_000 }])
  await scene.state.renew({ ...held(1), extendByMs: 5_000 })
  await scene.clock.advance(1_000)
  expect(shown()).toEqual([{ ...led, remainingMs: 4_000, sinceChangeMs: 3_000 }])
  await scene.state.resign(held(1))
  await scene.clock.advance(500)
  expect(shown()).toEqual([{ ...nobody, term: 1, sinceChangeMs: 500 }])
  await scene.campaign('b', { groupId: 'another' })
  expect(shown()).toHaveLength(1)
})

test('the metrics show the end of a lease from its expiry, even if the end is written later', async () => {
  const clock = fakeClock()
  const shown = new GroupMetrics(['jobs'], clock)
  const lease = groupWithLease('jobs', clock.monotonicMs() + 5_000)
  shown.add(lease.group)
  shown.changed(lease.group)
  await clock.advance(5_400)
  const over = { groupId: 'jobs', hasLeader: false, term: 1, remainingMs: 0, standbys: 0, sinceChangeMs: 400 }
  expect(shown.snapshot(() => 0).shown).toEqual([over])
  lease.end = 'expired'
  shown.changed(lease.group)
  expect(shown.snapshot(() => 0).shown).toEqual([over])
})

test('after a restart, metrics count the age of a live lease from its grant, and that of an ended lease from the restart', async () => {
  const scene = await open({ metricsGroups: ['*'] })
  await scene.campaign('a')
  await scene.campaign('b', { groupId: 'ended' })
  await scene.state.resign({ ...held(1, 'b'), groupId: 'ended' })
  await scene.clock.advance(4_000)
  await scene.restart()
  await scene.clock.advance(700)
  const shown = new Map(scene.state.groupMetrics()?.shown.map((each) => [each.groupId, each]))
  expect(shown.get('jobs')).toMatchObject({ hasLeader: true, term: 1, sinceChangeMs: 4_700 })
  expect(shown.get('ended')).toMatchObject({ hasLeader: false, term: 1, sinceChangeMs: 700 })
})

test('a defined group without a leader has metrics, and a deleted group has none', async () => {
  const scene = await open({ metricsGroups: ['reports-*'] })
  await scene.state.define('reports-a', { policy, allowedNodes: undefined }, { replace: false })
  expect(scene.state.groupMetrics()?.shown).toMatchObject([{ groupId: 'reports-a', hasLeader: false, term: 0 }])
  await scene.campaign('a', { groupId: 'reports-a' })
  await scene.state.remove('reports-a', { force: true })
  expect(scene.state.groupMetrics()).toEqual({ shown: [], leftOut: 0 })
  await scene.restart()
  expect(scene.state.groupMetrics()).toEqual({ shown: [], leftOut: 0 })
})

test('metrics cover a thousand groups, and count the groups that are left out until there is room', () => {
  const shown = new GroupMetrics(['all-*', 'named'], fakeClock())
  // The groups are not added in the order of their names, and those that were added first stay.
  const groups = Array.from({ length: maxMetricsGroups + 3 }, (_, index) => new Group(`all-${9_999 - index}`, 1))
  for (const group of [...groups, ...groups]) shown.add(group)
  const idsOf = () => shown.snapshot(() => 0).shown.map(({ groupId }) => groupId)
  expect(shown.snapshot(() => 0).leftOut).toBe(4)
  expect(idsOf()).toEqual(['named', ...groups.slice(0, maxMetricsGroups - 1).map(({ id }) => id)])
  shown.remove(groups[0] as Group)
  shown.remove(groups.at(-1) as Group)
  expect(shown.snapshot(() => 0).leftOut).toBe(2)
  expect(idsOf()).toEqual(['named', ...groups.slice(1, maxMetricsGroups).map(({ id }) => id)])
})

test('groups have no metrics once their leader is unknown', async () => {
  const scene = await open({ metricsGroups: ['jobs'] })
  await scene.campaign('a')
  expect(scene.state.groupMetrics()?.shown).toHaveLength(1)
  await scene.state.close()
  expect(scene.state.groupMetrics()).toBeUndefined()
})
