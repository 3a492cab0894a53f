/** What changes while somebody waits for a write, a turn or a stalled server. */
import { fakeClock } from 'tenure/testing'
import { describe, expect, test } from 'vitest'
import { restoreData } from '../../src/storage/backup.ts'
import { ExpiryQueue } from '../../src/groups/expiry-queue.ts'
import { held, inSteps, open, pass } from './scene.ts'
import { openStorage, write } from '../storage/data.ts'

const policy = { minTtlMs: 1_000, maxTtlMs: 60_000 }

describe('a campaign in line', () => {
  test('is granted nothing once its client has gone, also if its turn comes with the end of a write', async () => {
    const scene = await open()
    await scene.campaign('a')
    const gone = new AbortController()
    const waiting = scene.campaign('b', { waitMs: 60_000 }, gone.signal)
    await scene.clock.advance(10)
    const resigned = scene.state.resign(held(1))
    gone.abort()
    await resigned
    expect(await waiting).toMatchObject({ granted: false })
    expect(await scene.campaign('c')).toMatchObject({ granted: true, lease: { term: 2 } })
  })

  test('does not bring back a group that was deleted, where groups exist by definition only', async () => {
    const scene = await open({ implicitGroups: false })
    await scene.state.define('jobs', { policy, allowedNodes: ['a', 'b'] }, { replace: false })
    await scene.campaign('a')
    const waiting = scene.campaign('b', { waitMs: 60_000 })
    waiting.catch(() => {})
    await scene.clock.advance(10)
    await scene.state.remove('jobs', { force: true })
    const arriving = scene.campaign('c')
    await expect(arriving).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await pass(scene, 10_000)
    await expect(waiting).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await expect(scene.state.group('jobs')).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })

  test('nor does one that came while the deletion was being written', async () => {
    const scene = await open({ implicitGroups: false })
    await scene.state.define('jobs', { policy, allowedNodes: ['a'] }, { replace: false })
    const removed = scene.state.remove('jobs', { force: false })
    await expect(scene.campaign('c')).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await removed
  })
})

describe('a group that was deleted', () => {
  test('leaves nothing but its term to the next one of its name', async () => {
    const scene = await open()
    await scene.campaign('a', { metadata: '{"zone":"az-a"}' })
    await scene.state.renew({ ...held(1), extendByMs: 5_000, carry: 'a secret' })
    await scene.state.resign(held(1))
    await scene.state.remove('jobs', { force: false })
    expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { term: 2, carry: '' } })
  })

  test('is held once, not again after every restart', async () => {
    const scene = await open()
    await scene.campaign('a')
    await scene.state.remove('jobs', { force: true })
    await pass(scene, 5_000)
    await scene.state.define('jobs', { policy, allowedNodes: undefined }, { replace: false })
    await scene.restart()
    expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { term: 2 } })
  })
})

describe('after a restored backup', () => {
  test('terms of one group say nothing about those of others, however high they are', async () => {
    const scene = await open()
    // As versions before this one allowed it.
    await scene.state.close()
    const storage = await openStorage(scene.directory)
    await write(storage, { id: 'far ahead', record: { term: Number.MAX_SAFE_INTEGER, node: 'a', ended: true } })
    await storage.close()
    await scene.restart()
    await scene.campaign('a')
    await scene.state.resign(held(1))
    await scene.restart({ afterRestore: true })
    expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { term: 1_000_002 } })
    expect(await scene.campaign('b', { groupId: 'unknown' })).toMatchObject({ lease: { term: 1_000_001 } })
    const { highestTerm } = await scene.state.leader('far ahead')
    expect(highestTerm).toBe(Number.MAX_SAFE_INTEGER)
  })

  test('terms are skipped once for each of them, and what was granted between counts', async () => {
    const scene = await open()
    await scene.campaign('a')
    await scene.state.close()
    await restoreData({ data: scene.directory })
    await scene.restart()
    await pass(scene, 10_000)
    expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { term: 1_000_002 } })
    await scene.restart()
    expect(await scene.state.leader('jobs')).toMatchObject({ lease: { nodeId: 'b', term: 1_000_002, ended: false } })
    await scene.state.close()
    await restoreData({ data: scene.directory })
    await scene.restart()
    expect(await scene.campaign('c')).toMatchObject({ granted: false })
    await pass(scene, 10_000)
    expect(await scene.campaign('c')).toMatchObject({ granted: true, lease: { term: 2_000_003 } })
  })
})

describe('while a carry is being written', () => {
  test('a plain renewal of the same leader need not wait for it', async () => {
    const scene = await open()
    await scene.campaign('a')
    const writing = scene.state.renew({ ...held(1), extendByMs: 5_000, carry: 'last run' })
    await scene.clock.advance(0)
    const plain = scene.state.renew({ ...held(1), extendByMs: 5_000 })
    expect(plain).not.toBeInstanceOf(Promise)
    expect(plain).toMatchObject({ granted: true, lease: { carry: '' } })
    expect(await writing).toMatchObject({ granted: true, lease: { carry: 'last run' } })
  })

  test('a renewal for longer waits, and so does one while the end is being written', async () => {
    const scene = await open()
    await scene.campaign('a')
    const carry = scene.state.renew({ ...held(1), extendByMs: 5_000, carry: 'last run' })
    const longer = scene.state.renew({ ...held(1), extendByMs: 9_000 })
    expect(longer).toBeInstanceOf(Promise)
    await Promise.all([carry, longer])
    const resigned = scene.state.resign(held(1))
    await Promise.resolve()
    const late = scene.state.renew({ ...held(1), extendByMs: 5_000 })
    expect(late).toBeInstanceOf(Promise)
    await resigned
    expect(await late).toMatchObject({ granted: false })
  })
})

describe('a queue of leases', () => {
  test('keeps no more of those that ended early than of those that have not', () => {
    const queue = new ExpiryQueue<{ expiresAtMs: number; ended: boolean }>()
    const live = { expiresAtMs: 3_600_000, ended: false }
    queue.add(live)
    for (let index = 0; index < 100_000; index++) {
      const lease = { expiresAtMs: 3_600_000 + index, ended: false }
      queue.add(lease)
      lease.ended = true
      queue.endedEarly()
    }
    expect(queue.size).toBeLessThan(5_000)
    expect(queue.take(3_600_000)).toBe(live)
  })
})

describe('a server that stood still', () => {
  async function stallable() {
    let stalledMs = 0
    const clock = fakeClock()
    const scene = await open({ clock: { ...clock, monotonicMs: () => clock.monotonicMs() + stalledMs } })
    await scene.campaign('a')
    const steps = { ...clock, advance: inSteps(clock, () => scene.state) }
    return { ...scene, clock: steps, stall: (ms: number) => void (stalledMs += ms) }
  }

  test('does not count it: a renewal that waited in its socket finds the lease alive', async () => {
    const scene = await stallable()
    await scene.clock.advance(4_500)
    scene.stall(1_700)
    expect(await scene.state.renew({ ...held(1), extendByMs: 5_000 })).toMatchObject({ granted: true })
    expect(await scene.campaign('b')).toMatchObject({ granted: false, lease: { nodeId: 'a' } })
    await scene.clock.advance(4_900)
    expect(await scene.campaign('b')).toMatchObject({ granted: false })
    await scene.clock.advance(200)
    expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { term: 2 } })
  })

  test('does not count a stall during which it went on answering one caller', async () => {
    const scene = await stallable()
    await scene.campaign('x', { groupId: 'other' })
    await scene.clock.advance(4_500)
    // One turn of the event loop that takes long, in which the clock is looked at all the time.
    for (let count = 0; count < 12; count++) {
      scene.stall(100)
      await scene.state.renew({ ...held(1), groupId: 'other', nodeId: 'x', extendByMs: 5_000 })
    }
    expect(await scene.state.renew({ ...held(1), extendByMs: 5_000 })).toMatchObject({ granted: true })
  })

  test('forgives a quarter of a lease and no more, however often it stands still', async () => {
    const scene = await stallable()
    // 700 ms of each second, and 100 ms of a stall are what passes between two looks at the clock anyway.
    for (let count = 0; count < 6; count++) {
      expect(await scene.campaign('b')).toMatchObject({ granted: false, lease: { nodeId: 'a' } })
      scene.stall(700)
      await scene.clock.advance(300)
    }
    await scene.clock.advance(200)
    expect(await scene.campaign('b')).toMatchObject({ granted: false })
    await scene.clock.advance(100)
    expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { term: 2 } })
  })

  test('forgives it again to a lease that was renewed since', async () => {
    const scene = await stallable()
    for (let count = 0; count < 6; count++) {
      await scene.clock.advance(4_500)
      scene.stall(1_000)
      expect(await scene.state.renew({ ...held(1), extendByMs: 5_000 })).toMatchObject({ granted: true })
    }
  })
})

test.each([3_600_000, -3_600_000])('a wall clock of the server that jumps by %i ms changes nothing', async (jumpMs) => {
  const scene = await open()
  await scene.campaign('a')
  scene.clock.setWall(scene.clock.wallMs() + jumpMs)
  await scene.clock.advance(4_900)
  expect(await scene.campaign('b')).toMatchObject({ granted: false, lease: { nodeId: 'a', remainingMs: 100 } })
  await pass(scene, 100)
  expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { term: 2, remainingMs: 5_000 } })
})
