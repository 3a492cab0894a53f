/** Tests of changes that happen while a call waits for a write, for its turn, or for a stalled server. */
import { fakeClock } from '@tenure/testing'
import { describe, expect, test } from 'vitest'
import { restoreData } from '../../src/storage/backup.ts'
import { ExpiryQueue } from '../../src/groups/expiry-queue.ts'
import { held, inSteps, open, pass } from './scene.ts'
import { openStorage, write } from '../storage/data-directories.ts'

const policy = { minTtlMs: 1_000, maxTtlMs: 60_000 }

describe('waiting campaigns', () => {
  test('a waiting campaign is not granted after its client disconnected, even if its turn comes with a write', async () => {
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

  test('a waiting campaign does not recreate a deleted group when implicit groups are disabled', async () => {
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

  test('a campaign that arrives while the deletion is written does not recreate the group', async () => {
    const scene = await open({ implicitGroups: false })
    await scene.state.define('jobs', { policy, allowedNodes: ['a'] }, { replace: false })
    const removed = scene.state.remove('jobs', { force: false })
    await expect(scene.campaign('c')).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await removed
  })
})

describe('deleted groups', () => {
  test('a group that is created again inherits only the term of the deleted group', async () => {
    const scene = await open()
    await scene.campaign('a', { metadata: '{"zone":"az-a"}' })
    await scene.state.renew({ ...held(1), extendByMs: 5_000, checkpoint: 'a secret' })
    await scene.state.resign(held(1))
    await scene.state.remove('jobs', { force: false })
    expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { term: 2, checkpoint: '' } })
  })

  test('a group that was deleted and defined again is not held a second time after a restart', async () => {
    const scene = await open()
    await scene.campaign('a')
    await scene.state.remove('jobs', { force: true })
    await pass(scene, 5_000)
    await scene.state.define('jobs', { policy, allowedNodes: undefined }, { replace: false })
    await scene.restart()
    expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { term: 2 } })
  })
})

describe('restored backups', () => {
  test("a restore skips terms of each group independently, even if another group's term is the maximum", async () => {
    const scene = await open()
    // No grant reaches such a term, but damaged or edited data may.
    await scene.state.close()
    const storage = await openStorage(scene.directory)
    await write(storage, { id: 'far ahead', record: { term: Number.MAX_SAFE_INTEGER, node: 'a', ended: true } })
    await storage.close()
    await scene.restart()
    await scene.campaign('a')
    await scene.state.resign(held(1))
    await scene.restore()
    expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { term: 1_000_002 } })
    expect(await scene.campaign('b', { groupId: 'unknown' })).toMatchObject({ lease: { term: 1_000_001 } })
    const { highestTerm } = await scene.state.leader('far ahead')
    expect(highestTerm).toBe(Number.MAX_SAFE_INTEGER)
  })

  test('each restore skips terms once, on top of the terms granted since the last restore', async () => {
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

describe('concurrent writes of a lease', () => {
  test('a plain renewal does not wait while a checkpoint of the same leader is being written', async () => {
    const scene = await open()
    await scene.campaign('a')
    const writing = scene.state.renew({ ...held(1), extendByMs: 5_000, checkpoint: 'last run' })
    await scene.clock.advance(0)
    const plain = scene.state.renew({ ...held(1), extendByMs: 5_000 })
    expect(plain).not.toBeInstanceOf(Promise)
    expect(plain).toMatchObject({ granted: true, lease: { checkpoint: '' } })
    expect(await writing).toMatchObject({ granted: true, lease: { checkpoint: 'last run' } })
  })

  test('a renewal waits for a write when it extends the lease beyond the recorded duration, or while the end of the lease is being written', async () => {
    const scene = await open()
    await scene.campaign('a')
    const checkpoint = scene.state.renew({ ...held(1), extendByMs: 5_000, checkpoint: 'last run' })
    const longer = scene.state.renew({ ...held(1), extendByMs: 9_000 })
    expect(longer).toBeInstanceOf(Promise)
    await Promise.all([checkpoint, longer])
    const resigned = scene.state.resign(held(1))
    await Promise.resolve()
    const late = scene.state.renew({ ...held(1), extendByMs: 5_000 })
    expect(late).toBeInstanceOf(Promise)
    await resigned
    expect(await late).toMatchObject({ granted: false })
  })
})

describe('ExpiryQueue', () => {
  test('ExpiryQueue does not accumulate leases that ended early', () => {
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

describe('a stalled server', () => {
  async function stallable() {
    let stalledMs = 0
    const clock = fakeClock()
    const scene = await open({ clock: { ...clock, monotonicMs: () => clock.monotonicMs() + stalledMs } })
    await scene.campaign('a')
    const steps = { ...clock, advance: inSteps(clock, () => scene.state) }
    return { ...scene, clock: steps, stall: (ms: number) => void (stalledMs += ms) }
  }

  test('a stall of the server does not count against a lease that is renewed right after it', async () => {
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

  test('a stall does not count even if the server answered one caller during it', async () => {
    const scene = await stallable()
    await scene.campaign('x', { groupId: 'other' })
    await scene.clock.advance(4_500)
    // This is one long turn of the event loop, during which the clock is read constantly.
    for (let count = 0; count < 12; count++) {
      scene.stall(100)
      await scene.state.renew({ ...held(1), groupId: 'other', nodeId: 'x', extendByMs: 5_000 })
    }
    expect(await scene.state.renew({ ...held(1), extendByMs: 5_000 })).toMatchObject({ granted: true })
  })

  test('stalls extend a lease by at most a quarter in total', async () => {
    const scene = await stallable()
    // Each second has a stall of 700 ms. The first 100 ms of a stall do not count, because that much time passes
    // between two reads of the clock anyway.
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

  test('the allowance for stalls starts again with each renewal', async () => {
    const scene = await stallable()
    for (let count = 0; count < 6; count++) {
      await scene.clock.advance(4_500)
      scene.stall(1_000)
      expect(await scene.state.renew({ ...held(1), extendByMs: 5_000 })).toMatchObject({ granted: true })
    }
  })
})

test.each([3_600_000, -3_600_000])(
  "a jump of the server's wall clock by %i ms does not change leases",
  async (jumpMs) => {
    const scene = await open()
    await scene.campaign('a')
    scene.clock.setWall(scene.clock.wallMs() + jumpMs)
    await scene.clock.advance(4_900)
    expect(await scene.campaign('b')).toMatchObject({ granted: false, lease: { nodeId: 'a', remainingMs: 100 } })
    await pass(scene, 100)
    expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { term: 2, remainingMs: 5_000 } })
  },
)
