/** Tests of live standbys, in virtual time. */
import { expect, test, vi } from 'vitest'
import { WatchPresence } from '../../src/watch/presence.ts'
import { held, open, pass, type Scene } from '../groups/scene.ts'

async function standby(scene: Scene, nodeId = 'b') {
  return (await scene.state.members('jobs')).find((member) => member.nodeId === nodeId)
}
const standbys = async (scene: Scene) => (await scene.state.group('jobs')).standbys

/** Advances time by minutes while the leader renews. */
async function minutes(scene: Scene, count: number): Promise<void> {
  for (let second = 0; second < count * 60; second += 4) {
    await pass(scene, 4_000)
    expect(await scene.state.renew({ ...held(1), extendByMs: 5_000 })).toMatchObject({ granted: true })
  }
}

test('a standby is live while a watch that names it is open, and for a short time after', async () => {
  const scene = await open()
  const presence = new WatchPresence(scene.state, scene.clock)
  await scene.campaign('a')
  await scene.campaign('b', { metadata: '{"zone":"b"}', instance: 'one' })
  const leave = presence.enter(['jobs'], 'b')
  const twice = presence.enter(['jobs', 'no-such-group'], 'b')
  await minutes(scene, 3)
  // In this test, members are forgotten after a minute.
  const nowMs = scene.clock.wallMs()
  const seen = await standby(scene)
  expect(seen).toMatchObject({ role: 'candidate', live: true, metadata: '{"zone":"b"}', instance: 'one' })
  expect(nowMs - (seen?.lastHeartbeatMs ?? 0)).toBeLessThanOrEqual(5_000)
  expect(await standbys(scene)).toBe(1)
  leave()
  leave()
  await minutes(scene, 0.5)
  expect(await standby(scene)).toMatchObject({ live: true })
  twice()
  await pass(scene, 4_900)
  await pass(scene, 10_100)
  expect(await standby(scene)).toMatchObject({ role: 'candidate', live: false })
  expect(await standbys(scene)).toBe(0)
})

test('a waiting campaign is a live standby until its client disconnects', async () => {
  const scene = await open()
  await scene.campaign('a')
  const client = new AbortController()
  const waits = scene.campaign('b', { waitMs: 600_000 }, client.signal)
  await vi.waitUntil(async () => (await scene.state.group('jobs')).waiting === 1)
  await minutes(scene, 2)
  expect(await standby(scene)).toMatchObject({ live: true, waiting: true, lastHeartbeatMs: scene.clock.wallMs() })
  expect(await standbys(scene)).toBe(1)
  client.abort()
  await waits
  expect(await standbys(scene)).toBe(0)
})

test('a polling candidate is live until its next poll is due, and one that sends heartbeats is live for half a minute', async () => {
  const scene = await open({ policy: { minTtlMs: 1_000, maxTtlMs: 3_600_000 }, memberTtlMs: 600_000 })
  await scene.campaign('a', { ttlMs: 120_000 })
  await scene.campaign('b')
  await scene.state.heartbeat('jobs', 'c', '{}')
  expect(await standbys(scene)).toBe(2)
  await pass(scene, 30_000)
  expect(await standby(scene, 'c')).toMatchObject({ role: 'candidate', live: false })
  // The response asked the candidate to retry in 120 s.
  expect(await standby(scene, 'b')).toMatchObject({ live: true })
  await scene.state.renew({ ...held(1), extendByMs: 300_000 })
  await pass(scene, 120_000)
  expect(await standby(scene, 'b')).toMatchObject({ role: 'candidate', live: false })
})

test('a leader, a leader that crashed, and a node that is not allowed are not live standbys', async () => {
  const scene = await open()
  const presence = new WatchPresence(scene.state, scene.clock)
  await scene.state.define(
    'jobs',
    { policy: { minTtlMs: 1_000, maxTtlMs: 60_000 }, allowedNodes: ['a', 'b'] },
    { replace: true },
  )
  await scene.campaign('a')
  presence.enter(['jobs'], 'a')
  presence.enter(['jobs'], 'stranger')
  await pass(scene, 1_000)
  expect(await standby(scene, 'a')).toMatchObject({ role: 'leader', live: true })
  expect(await standby(scene, 'b')).toMatchObject({ role: 'allowed', live: false })
  expect(await standby(scene, 'stranger')).toBeUndefined()
  expect(await standbys(scene)).toBe(0)
  // The node had lost a campaign before, and its response asked it to retry much later.
  const crashed = await open()
  await crashed.campaign('b', { ttlMs: 60_000 })
  await crashed.campaign('a')
  await crashed.state.resign(held(1, 'b'))
  await crashed.campaign('a')
  await pass(crashed, 6_000)
  expect(await standby(crashed, 'a')).toMatchObject({ role: 'candidate', live: false })
  expect(await standbys(crashed)).toBe(0)
})

test('the metrics of a group count its live standbys', async () => {
  const scene = await open({ metricsGroups: ['jobs', 'none'] })
  const figures = () => scene.state.groupMetrics()?.shown.map(({ groupId, standbys: count }) => `${groupId} ${count}`)
  expect(figures()).toEqual(['jobs 0', 'none 0'])
  await scene.campaign('a')
  await scene.campaign('b')
  expect(figures()).toEqual(['jobs 1', 'none 0'])
  await pass(scene, 60_000)
  expect(figures()).toEqual(['jobs 0', 'none 0'])
})

test('presence keeps reporting a watch after a report failed', async () => {
  const scene = await open()
  const told: number[] = []
  let fails = true
  const presence = new WatchPresence(
    {
      reportWatches(open) {
        told.push(open.length)
        if (fails) throw new Error('nobody is active')
      },
    },
    scene.clock,
  )
  const leave = presence.enter(['jobs'], 'b')
  await pass(scene, 5_000)
  fails = false
  await pass(scene, 5_000)
  leave()
  await pass(scene, 20_000)
  expect(told).toEqual([1, 1, 1])
})
