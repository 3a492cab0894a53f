import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { held, open, pass, type Scene } from './scene.ts'

describe('successors', () => {
  /** Campaigns that wait in the queue, in this order, and who was granted a term so far. */
  async function waiting(scene: Scene, ...nodes: readonly string[]) {
    const leaders: string[] = []
    const gone = new AbortController()
    onTestFinished(() => gone.abort())
    for (const node of nodes) {
      const campaign = scene.campaign(node, { waitMs: 60_000 }, gone.signal)
      void campaign.then(
        ({ granted }) => granted && leaders.push(node),
        // The groups are closed while it waits.
        () => {},
      )
    }
    await vi.waitUntil(async () => (await scene.state.group('jobs')).waiting === nodes.length)
    return leaders
  }

  test('a resignation keeps its successor across a restart, until the next grant', async () => {
    const scene = await open()
    await scene.campaign('a')
    const ended = await scene.state.resign({ ...held(1), successor: 'b' })
    expect(ended).toMatchObject({ granted: true, lease: { ended: true, successor: 'b' } })
    await scene.restart()
    expect(await scene.state.leader('jobs')).toMatchObject({ lease: { ended: true, successor: 'b' } })
    await pass(scene, 2_000)
    expect(await scene.campaign('c')).toMatchObject({ granted: true, lease: { term: 2, successor: undefined } })
    await scene.restart()
    await scene.state.resign(held(2, 'c'))
    expect(await scene.state.leader('jobs')).toMatchObject({ lease: { term: 2, ended: true, successor: undefined } })
  })

  test('a named successor that waits is served at once, ahead of earlier campaigns', async () => {
    const scene = await open()
    await scene.campaign('a')
    const leaders = await waiting(scene, 'b', 'c', 'd')
    await scene.state.resign({ ...held(1), successor: 'd' })
    await pass(scene, 0)
    expect(leaders).toEqual(['d'])
  })

  test('a new campaign of a named successor wins at once, and the answer to another node says how long to wait', async () => {
    const scene = await open()
    await scene.campaign('a')
    const leaders = await waiting(scene, 'b')
    await scene.state.resign({ ...held(1), successor: 'd' })
    await pass(scene, 500)
    expect(await scene.campaign('c')).toMatchObject({ granted: false, freeInMs: 1_500 })
    // A reader may be the successor, so the answer contains no wait.
    expect(await scene.state.leader('jobs')).toMatchObject({ freeInMs: 0 })
    expect(await scene.campaign('d')).toMatchObject({ granted: true, lease: { term: 2 } })
    expect(leaders).toEqual([])
  })

  test('campaigns wait at most 2 s for a successor that never comes, and are then served in order', async () => {
    const scene = await open()
    await scene.campaign('a')
    const leaders = await waiting(scene, 'b', 'c')
    await scene.state.resign({ ...held(1), successor: 'nobody' })
    await pass(scene, 1_999)
    expect(leaders).toEqual([])
    await pass(scene, 1)
    expect(leaders).toEqual(['b'])
    await scene.state.resign(held(2, 'b'))
    await pass(scene, 0)
    expect(leaders).toEqual(['b', 'c'])
  })

  test('an administrator names a successor, and the group is still held until the lease would have expired', async () => {
    const scene = await open()
    await scene.campaign('a')
    await scene.state.forceResign({ ...held(1), successor: 'b' })
    expect(await scene.state.leader('jobs')).toMatchObject({ freeInMs: 5_000, lease: { ended: true, successor: 'b' } })
    expect(await scene.campaign('b')).toMatchObject({ granted: false })
  })

  test('a successor that an administrator named wins when the lease would have expired, ahead of earlier campaigns', async () => {
    const scene = await open()
    await scene.campaign('a')
    const leaders = await waiting(scene, 'c', 'b', 'a')
    await pass(scene, 1_000)
    await scene.state.forceResign({ ...held(1), successor: 'b' })
    await pass(scene, 3_999)
    expect(leaders).toEqual([])
    await pass(scene, 1)
    expect(leaders).toEqual(['b'])
  })

  test('the wait for a successor that an administrator named ends 2 s after the lease would have expired', async () => {
    const scene = await open()
    await scene.campaign('a')
    const leaders = await waiting(scene, 'c')
    await scene.state.forceResign({ ...held(1), successor: 'b' })
    await pass(scene, 6_999)
    expect(leaders).toEqual([])
    await pass(scene, 1)
    expect(leaders).toEqual(['c'])
  })

  test('a restart does not lose the preference of a forced resignation, and waits no longer than 2 s after the hold', async () => {
    for (const [node, ms] of [
      ['b', 5_000],
      ['c', 7_000],
    ] as const) {
      const scene = await open()
      await scene.campaign('a')
      await scene.state.forceResign({ ...held(1), successor: 'b' })
      await scene.restart()
      await pass(scene, ms - 1)
      expect(await scene.campaign(node), node).toMatchObject({ granted: false })
      await pass(scene, 1)
      expect(await scene.campaign(node), node).toMatchObject({ granted: true })
    }
  })

  test('a deleted group does not wait for a successor', async () => {
    const scene = await open()
    await scene.campaign('a')
    await scene.state.resign({ ...held(1), successor: 'b' })
    await scene.state.remove('jobs', { force: false })
    expect(await scene.campaign('c')).toMatchObject({ granted: true, lease: { term: 2 } })
  })
})

describe('campaigns', () => {
  test('only one of two concurrent campaigns wins a free group', async () => {
    const scene = await open()
    const [one, two] = await Promise.all([scene.campaign('a'), scene.campaign('b')])
    expect([one.granted, two.granted]).toEqual([true, false])
    expect(two.lease).toMatchObject({ nodeId: 'a', term: 1, remainingMs: 5_000 })
    expect(scene.changes).toEqual(['LEADER_CHANGED a 1'])
  })

  test('a repeated candidacy gets its term again without extending the lease, and another candidacy of the same node is refused', async () => {
    const scene = await open()
    await scene.campaign('a', { attempt: 'start 1' })
    await scene.clock.advance(2_000)
    const again = await scene.campaign('a', { attempt: 'start 1' })
    expect(again).toMatchObject({ granted: true, lease: { term: 1, remainingMs: 3_000 } })
    expect(await scene.campaign('a', { attempt: 'start 2' })).toMatchObject({ granted: false, lease: { term: 1 } })
    await pass(scene, 3_000)
    expect(await scene.campaign('a', { attempt: 'start 2' })).toMatchObject({ granted: true, lease: { term: 2 } })
  })

  test('a campaign with a single-use attempt is refused after its lease has ended', async () => {
    const scene = await open()
    const once = { attempt: 'x', attemptIsOnce: true }
    await scene.campaign('a', once)
    await scene.state.resign(held(1))
    expect(await scene.campaign('a', once)).toMatchObject({ granted: false, highestTerm: 1 })
    expect(await scene.campaign('a')).toMatchObject({ granted: true, lease: { term: 2 } })
  })

  test('a campaign is refused when its candidate has not seen the highest term', async () => {
    const scene = await open()
    await scene.campaign('a')
    await scene.state.resign(held(1))
    expect(await scene.campaign('b', { afterTerm: 0 })).toMatchObject({ granted: false, highestTerm: 1 })
    expect(await scene.campaign('b', { afterTerm: 7 })).toMatchObject({ granted: true, lease: { term: 8 } })
  })

  test('waiting campaigns are granted in order of arrival, each with a full lease', async () => {
    const scene = await open()
    await scene.campaign('a')
    const second = scene.campaign('b', { waitMs: 60_000 })
    const third = scene.campaign('c', { waitMs: 60_000 })
    await scene.clock.advance(1_000)
    await scene.state.resign(held(1))
    expect(await second).toMatchObject({ granted: true, lease: { nodeId: 'b', term: 2, remainingMs: 5_000 } })
    await pass(scene, 5_000)
    expect(await third).toMatchObject({ granted: true, lease: { nodeId: 'c', term: 3 } })
  })

  test('a new campaign does not overtake a waiting one', async () => {
    const scene = await open()
    await scene.campaign('a')
    const waiting = scene.campaign('b', { waitMs: 60_000 })
    await scene.clock.advance(10)
    const [, newcomer] = await Promise.all([scene.state.resign(held(1)), scene.campaign('c')])
    expect(newcomer.granted).toBe(false)
    expect(await waiting).toMatchObject({ granted: true, lease: { term: 2 } })
  })

  test('a waiting campaign ends on timeout or when its client disconnects, and the next one moves up', async () => {
    const scene = await open()
    await scene.campaign('a')
    const gone = new AbortController()
    const short = scene.campaign('b', { waitMs: 1_000 })
    const left = scene.campaign('c', { waitMs: 60_000 }, gone.signal)
    const patient = scene.campaign('d', { waitMs: 60_000 })
    await scene.clock.advance(1_000)
    expect((await short).granted).toBe(false)
    gone.abort()
    expect((await left).granted).toBe(false)
    await scene.state.resign(held(1))
    expect(await patient).toMatchObject({ granted: true, lease: { nodeId: 'd' } })
  })

  test('a campaign with a duration outside the policy is refused with the bounds', async () => {
    const scene = await open()
    for (const ttlMs of [999, 60_001]) {
      await expect(scene.campaign('a', { ttlMs })).rejects.toMatchObject({
        code: 'INVALID_TTL',
        details: { min_ttl_ms: 1_000, max_ttl_ms: 60_000 },
      })
    }
    await expect(scene.state.groups({ after: undefined, limit: 9 })).resolves.toMatchObject({
      groups: [],
      next: undefined,
    })
  })
})

describe('renewals', () => {
  test('a renewal extends a lease and never shortens it', async () => {
    const scene = await open()
    await scene.campaign('a')
    await scene.clock.advance(1_000)
    expect(await scene.state.renew({ ...held(1), extendByMs: 2_000 })).toMatchObject({ lease: { remainingMs: 4_000 } })
    expect(await scene.state.renew({ ...held(1), extendByMs: 5_000 })).toMatchObject({ lease: { remainingMs: 5_000 } })
  })

  test('a renewal is refused for another node, an older term, another version, or an ended lease', async () => {
    const scene = await open()
    const { lease } = await scene.campaign('a')
    const renew = (change: object) => scene.state.renew({ ...held(1), extendByMs: 5_000, ...change })
    expect(await renew({ nodeId: 'b' })).toMatchObject({ granted: false, lease: { nodeId: 'a' } })
    expect(await renew({ term: 0 })).toMatchObject({ granted: false })
    expect(await renew({ version: 'old' })).toMatchObject({ granted: false })
    expect(await renew({ version: lease?.version })).toMatchObject({ granted: true })
    await scene.clock.advance(5_000)
    expect(await renew({})).toMatchObject({ granted: false, lease: { ended: true, remainingMs: 0 } })
  })

  test('a renewal for longer than the grant is honored after a crash', async () => {
    const scene = await open()
    await scene.campaign('a')
    await scene.state.renew({ ...held(1), extendByMs: 20_000 })
    await scene.state.renew({ ...held(1), extendByMs: 5_000 })
    await scene.restart()
    expect(await scene.state.leader('jobs')).toMatchObject({ lease: { nodeId: 'a', term: 1, remainingMs: 25_000 } })
  })

  test('the checkpoint of a renewal survives a crash and a change of leader', async () => {
    const scene = await open()
    await scene.campaign('a')
    await scene.state.renew({ ...held(1), extendByMs: 5_000, checkpoint: 'ran at 5' })
    await scene.restart()
    await scene.state.resign(held(1))
    expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { checkpoint: 'ran at 5' } })
  })
})

describe('resignations', () => {
  test('a resignation frees the group at once, may be repeated, and is refused for an older term', async () => {
    const scene = await open()
    await scene.campaign('a')
    expect(await scene.state.resign(held(1))).toMatchObject({ granted: true })
    expect(await scene.state.resign(held(1))).toMatchObject({ granted: true })
    await scene.campaign('b')
    expect(await scene.state.resign(held(1))).toMatchObject({ granted: false, lease: { nodeId: 'b', term: 2 } })
    expect(await scene.state.leader('jobs')).toMatchObject({ lease: { nodeId: 'b', ended: false } })
    expect(scene.changes).toEqual(['LEADER_CHANGED a 1', 'LEADER_LOST a 1 resigned', 'LEADER_CHANGED b 2'])
  })
})

describe('restarts', () => {
  test('a lease lasts its full duration plus 5 s after a restart, and its holder can renew it', async () => {
    const scene = await open()
    await scene.campaign('a')
    await scene.clock.advance(4_999)
    await scene.restart()
    expect(await scene.state.leader('jobs')).toMatchObject({ lease: { nodeId: 'a', remainingMs: 10_000 } })
    expect(await scene.state.renew({ ...held(1), extendByMs: 5_000 })).toMatchObject({ granted: true })
    await pass(scene, 9_999)
    expect(await scene.campaign('b')).toMatchObject({ granted: false })
    await pass(scene, 1)
    expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { term: 2 } })
  })

  test('a restart does not revive a term whose end was reported', async () => {
    const scene = await open()
    await scene.campaign('a')
    await pass(scene, 5_000)
    expect(scene.changes).toContain('LEADER_LOST a 1 expired')
    await scene.restart()
    expect(await scene.state.leader('jobs')).toMatchObject({ lease: { ended: true }, highestTerm: 1 })
    expect(await scene.state.renew({ ...held(1), extendByMs: 5_000 })).toMatchObject({ granted: false })
    expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { term: 2 } })
  })

  test('a definition does not revive an ended term after a restart', async () => {
    const scene = await open()
    await scene.campaign('a')
    await scene.state.resign(held(1))
    const policy = { minTtlMs: 1_000, maxTtlMs: 9_000 }
    await scene.state.define('jobs', { policy, allowedNodes: undefined }, { replace: false })
    await scene.restart()
    expect(await scene.state.leader('jobs')).toMatchObject({ lease: { ended: true } })
  })

  test('terms continue after a restart, and skip ahead after a restored backup', async () => {
    const scene = await open()
    await scene.campaign('a')
    await scene.state.resign(held(1))
    await scene.restart()
    expect(await scene.campaign('a')).toMatchObject({ lease: { term: 2 } })
    await scene.state.resign(held(2))
    await scene.restore()
    expect(await scene.campaign('a')).toMatchObject({ lease: { term: 1_000_003 } })
    expect(await scene.campaign('a', { groupId: 'made since' })).toMatchObject({ lease: { term: 1_000_001 } })
  })

  test('after a restart, a lease still belongs to the instance that acquired it', async () => {
    const scene = await open()
    await scene.campaign('a', { instance: 'one' })
    await scene.restart()
    const renewed = (instance: string) => scene.state.renew({ ...held(1), instance, extendByMs: 5_000 })
    expect(await renewed('two')).toMatchObject({ granted: false, lease: { instance: 'one' } })
    expect(await renewed('one')).toMatchObject({ granted: true })
  })

  test('a renewal with a version from before a restart is refused', async () => {
    const scene = await open()
    const { lease } = await scene.campaign('a')
    await scene.restart()
    const claim = { ...held(1), extendByMs: 5_000, version: lease?.version }
    expect(await scene.state.renew(claim)).toMatchObject({ granted: false, lease: { nodeId: 'a', ended: false } })
  })
})

describe('groups', () => {
  const policy = { minTtlMs: 2_000, maxTtlMs: 9_000 }

  test('a group can be defined again with the same definition, and only PUT replaces it with another', async () => {
    const { state } = await open()
    const definition = { policy, allowedNodes: ['a'] }
    expect(await state.define('jobs', definition, { replace: false })).toBe('created')
    expect(await state.define('jobs', definition, { replace: false })).toBe('same')
    const other = { policy, allowedNodes: undefined }
    await expect(state.define('jobs', other, { replace: false })).rejects.toMatchObject({ code: 'CONFLICT' })
    expect(await state.define('jobs', other, { replace: true })).toBe('replaced')
  })

  test('a group refuses nodes that are not allowed, even after a restart', async () => {
    const scene = await open()
    await scene.state.define('jobs', { policy, allowedNodes: ['a'] }, { replace: false })
    await scene.restart()
    await expect(scene.campaign('b')).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
    expect(await scene.campaign('a')).toMatchObject({ granted: true })
  })

  test('a leader that is no longer allowed keeps its lease until it expires, even across a restart', async () => {
    const scene = await open()
    const policy = { minTtlMs: 1_000, maxTtlMs: 60_000 }
    await scene.campaign('a')
    await scene.state.define('jobs', { policy, allowedNodes: ['b'] }, { replace: true })
    const renewed = () => scene.state.renew({ ...held(1), extendByMs: 5_000 })
    expect(await renewed()).toMatchObject({ granted: false, refusal: { code: 'UNAUTHORIZED' } })
    expect(await scene.state.renewMany('a', [['jobs', 1, 5_000]])).toMatchObject([
      { refusal: { code: 'UNAUTHORIZED' } },
    ])
    await scene.restart()
    expect(await renewed()).toMatchObject({ granted: false, refusal: { code: 'UNAUTHORIZED' } })
    expect(await scene.campaign('b')).toMatchObject({ granted: false, lease: { nodeId: 'a', ended: false } })
    // The lease duration plus the grace period after a restart.
    await scene.clock.advance(10_000)
    expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { nodeId: 'b', term: 2 } })
  })

  test('a campaign needs a defined group when implicit groups are disabled', async () => {
    const scene = await open({ implicitGroups: false })
    await expect(scene.campaign('a')).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await scene.state.define('jobs', { policy, allowedNodes: undefined }, { replace: false })
    expect(await scene.campaign('a')).toMatchObject({ granted: true })
  })

  test('deleting a group with a leader needs force, waits out the lease, and keeps the terms', async () => {
    const scene = await open()
    await scene.campaign('a')
    await expect(scene.state.remove('jobs', { force: false })).rejects.toMatchObject({ code: 'CONFLICT' })
    await scene.state.remove('jobs', { force: true })
    await expect(scene.state.group('jobs')).rejects.toMatchObject({ code: 'NOT_FOUND' })
    expect(await scene.state.renew({ ...held(1), extendByMs: 5_000 })).toMatchObject({ granted: false })
    expect(await scene.campaign('b')).toMatchObject({ granted: false, freeInMs: 5_000 })
    await scene.restart()
    expect(await scene.campaign('b')).toMatchObject({ granted: false, freeInMs: 5_000 })
    await pass(scene, 5_000)
    expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { term: 2 } })
  })

  test('groups are listed in pages and in order', async () => {
    const scene = await open()
    for (const groupId of ['c', 'a', 'b']) await scene.campaign('x', { groupId })
    const ids = async (after: string | undefined, limit: number) => {
      const { groups, next } = await scene.state.groups({ after, limit })
      return [groups.map(({ groupId }) => groupId), next]
    }
    expect(await ids(undefined, 2)).toEqual([['a', 'b'], 'b'])
    expect(await ids('b', 2)).toEqual([['c'], undefined])
  })

  test('a listing skips many hidden groups, up to 10,000 per page', async () => {
    const scene = await open({ maxGroups: 20_000 })
    const others = Array.from({ length: 10_000 }, (_, at) => `g${String(at).padStart(5, '0')}`)
    const all = [...others, 'shown']
    // The storage has 5 s of real time for each batch of campaigns.
    for (let from = 0; from < all.length; from += 500) {
      await Promise.all(all.slice(from, from + 500).map((groupId) => scene.campaign('x', { groupId })))
    }
    const page = async (after: string | undefined) => {
      const isShown = (groupId: string) => groupId === 'shown'
      const { groups, next, passedOver } = await scene.state.groups({ after, limit: 1, isShown })
      return [groups.map(({ groupId }) => groupId), next, passedOver]
    }
    expect(await page(undefined)).toEqual([[], 'g09999', 10_000])
    expect(await page('g09999')).toEqual([['shown'], undefined, 0])
    expect(await page('g00000')).toEqual([['shown'], undefined, 9_999])
  })

  test('the members of a group are its allowed nodes, its campaigners, and nodes that sent a heartbeat', async () => {
    const scene = await open()
    await scene.state.define('jobs', { policy, allowedNodes: ['a', 'b', 'c', 'd'] }, { replace: false })
    await scene.campaign('a', { metadata: '{"zone":"az-a"}' })
    await scene.campaign('b')
    await scene.state.heartbeat('jobs', 'c', '{}')
    const roles = async () => (await scene.state.members('jobs')).map(({ nodeId, role }) => `${nodeId} ${role}`)
    expect(await roles()).toEqual(['a leader', 'b candidate', 'c candidate', 'd allowed'])
    await pass(scene, 60_000)
    expect(await roles()).toEqual(['a allowed', 'b allowed', 'c allowed', 'd allowed'])
  })
})

test('a heartbeat of another instance does not refresh the leader', async () => {
  const scene = await open()
  await scene.campaign('a', { instance: 'one', metadata: '{"from":"one"}' })
  await scene.clock.advance(1_000)
  const leader = async () => (await scene.state.members('jobs'))[0]
  const before = await leader()
  await scene.state.heartbeat('jobs', 'a', '{"from":"two"}', 'two')
  expect(await leader()).toEqual(before)
  await scene.state.heartbeat('jobs', 'a', '{"from":"one, later"}', 'one')
  expect(await leader()).toMatchObject({
    nodeId: 'a',
    role: 'leader',
    instance: 'one',
    metadata: '{"from":"one, later"}',
  })
})

test('a leader that resigned is not a member until it campaigns or sends a heartbeat again', async () => {
  const scene = await open()
  const nodes = async () => (await scene.state.members('jobs')).map(({ nodeId, role }) => `${nodeId} ${role}`)
  await scene.campaign('b')
  await scene.campaign('a')
  await scene.state.resign({ groupId: 'jobs', nodeId: 'b', term: 1 })
  expect(await nodes()).toEqual(['a candidate'])
  // A repeated resignation gets the same answer.
  await scene.state.resign({ groupId: 'jobs', nodeId: 'b', term: 1 })
  expect(await nodes()).toEqual(['a candidate'])
  await scene.restart()
  expect(await nodes()).toEqual([])
  await scene.campaign('a')
  await scene.campaign('b')
  expect(await nodes()).toEqual(['b candidate', 'a leader'])
})

test('a campaign in a new group is refused beyond maxGroups', async () => {
  const scene = await open({ maxGroups: 1 })
  await scene.campaign('a')
  await expect(scene.campaign('a', { groupId: 'another' })).rejects.toMatchObject({ code: 'RATE_LIMITED' })
})

test('deleted groups do not count toward maxGroups, even after a restart, and can be created again only if there is room', async () => {
  const scene = await open({ maxGroups: 1 })
  const policy = { minTtlMs: 1_000, maxTtlMs: 60_000 }
  const definition = { policy, allowedNodes: undefined }
  await scene.campaign('a')
  await scene.state.resign(held(1))
  await scene.state.remove('jobs', { force: false })
  expect(scene.state.groupCount).toBe(0)
  await scene.restart()
  expect(scene.state.groupCount).toBe(0)
  await scene.state.define('another', definition, { replace: false })
  await expect(scene.campaign('a')).rejects.toMatchObject({ code: 'RATE_LIMITED' })
  await expect(scene.state.define('jobs', definition, { replace: false })).rejects.toMatchObject({
    code: 'RATE_LIMITED',
  })
  await scene.state.remove('another', { force: false })
  expect(await scene.campaign('a')).toMatchObject({ granted: true, lease: { term: 2 } })
  expect(scene.state.groupCount).toBe(1)
})

describe.each([
  { who: 'a candidate', byAdministrator: false, farthest: 2 ** 20 },
  { who: 'an administrator', byAdministrator: true, farthest: 2 ** 32 },
])('after_term of $who', ({ byAdministrator, farthest }) => {
  test('a campaign with after_term beyond the bound is refused in any state of the group and changes nothing', async () => {
    const scene = await open()
    const far = (groupId: string, afterTerm = farthest + 1) =>
      scene.campaign('b', { groupId, afterTerm, byAdministrator })
    const refused = { code: 'INVALID_REQUEST' }
    for (const afterTerm of [farthest + 1, Number.MAX_SAFE_INTEGER - 1, Number.MAX_SAFE_INTEGER]) {
      await expect(far('new', afterTerm)).rejects.toMatchObject(refused)
    }
    expect(await scene.campaign('a', { groupId: 'new' })).toMatchObject({ granted: true, lease: { term: 1 } })
    await expect(far('new', farthest + 2)).rejects.toMatchObject(refused)
    await scene.state.resign({ ...held(1), groupId: 'new' })
    await expect(far('new', farthest + 2)).rejects.toMatchObject(refused)
    await scene.state.remove('new', { force: false })
    await expect(far('new', farthest + 2)).rejects.toMatchObject(refused)
    expect(await scene.campaign('a', { groupId: 'new' })).toMatchObject({ granted: true, lease: { term: 2 } })
  })

  test('a campaign with after_term up to the bound is granted, and the bound counts from the terms that a restored backup skips', async () => {
    const scene = await open()
    const after = (afterTerm: number, groupId: string) => scene.campaign('a', { groupId, afterTerm, byAdministrator })
    expect(await after(farthest, 'jobs')).toMatchObject({ lease: { term: farthest + 1 } })
    await scene.restore()
    expect(await after(farthest + 1_000_000, 'other')).toMatchObject({ lease: { term: farthest + 1_000_001 } })
  })
})

test('a candidate that knows a higher term than the service, because the service lost a restore, gets the next term', async () => {
  const scene = await open()
  await scene.restore()
  const before = await scene.campaign('a')
  expect(before).toMatchObject({ lease: { term: 1_000_001 } })
  // Another service with the same groups, whose data does not include the restore.
  const other = await open()
  expect(await other.campaign('a', { afterTerm: before.highestTerm })).toMatchObject({ lease: { term: 1_000_002 } })
})

describe('memory of groups', () => {
  const metadata = JSON.stringify({ text: 'x'.repeat(4_000) })
  const tooMany = { code: 'RATE_LIMITED' }

  test('group memory is bounded per subject, even after a restart, and is freed once groups are deleted', async () => {
    const scene = await open({ groupBytesPerSubject: 16_000, retention: { metadataMs: 10_000, groupMs: 10_000 } })
    const lead = (groupId: string, subject = 'many') => scene.campaign('a', { groupId, subject, metadata })
    for (const groupId of ['g1', 'g2', 'g3']) await lead(groupId)
    await expect(lead('g4')).rejects.toMatchObject(tooMany)
    expect(await lead('g4', 'another')).toMatchObject({ granted: true })
    await scene.restart()
    await expect(lead('g5')).rejects.toMatchObject(tooMany)
    await scene.state.remove('g1', { force: true })
    await expect(lead('g5')).rejects.toMatchObject(tooMany)
    await scene.clock.advance(130_000)
    await expect.poll(() => lead('g5').catch((error: unknown) => error)).toMatchObject({ granted: true })
  })

  test('group memory is bounded in total, and only requests that make a group larger are refused', async () => {
    const scene = await open({ maxGroupBytes: 16_000 })
    for (const groupId of ['g1', 'g2', 'g3']) await scene.campaign('a', { groupId, metadata })
    await expect(scene.campaign('a', { groupId: 'g4', metadata })).rejects.toMatchObject(tooMany)
    const held1 = { ...held(1), groupId: 'g1' }
    expect(await scene.state.renew({ ...held1, extendByMs: 50_000 })).toMatchObject({ granted: true })
    const grown = await scene.state.renew({ ...held1, extendByMs: 5_000, checkpoint: 'x'.repeat(4_000) })
    expect(grown).toMatchObject({ granted: false, refusal: tooMany })
    await scene.state.resign(held1)
    expect(await scene.campaign('b', { groupId: 'g1', metadata })).toMatchObject({ granted: true, lease: { term: 2 } })
    // The remaining room is not granted more than once to concurrent campaigns.
    const small = Array.from({ length: 9 }, (_, index) => scene.campaign('a', { groupId: `n${index}` }))
    const settled = await Promise.allSettled(small)
    expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(2)
    expect(scene.state.groupBytes).toBeLessThanOrEqual(16_000)
  })

  test('a group that ended long ago loses its metadata first, and then everything but its term', async () => {
    const scene = await open({ retention: { metadataMs: 60_000, groupMs: 240_000 } })
    for (const groupId of ['plain', 'carried', 'defined', 'led']) {
      if (groupId === 'defined') {
        const definition = { policy: { minTtlMs: 1_000, maxTtlMs: 60_000 }, allowedNodes: undefined }
        await scene.state.define(groupId, definition, { replace: false })
      }
      await scene.campaign('a', { groupId, metadata, ttlMs: 5_000, afterTerm: 6 })
      const held7 = { ...held(7), groupId }
      if (groupId === 'carried') await scene.state.renew({ ...held7, extendByMs: 5_000, checkpoint: 'page 7' })
      await scene.state.resign(held7)
    }
    const metadataOf = async (groupId: string) => (await scene.state.leader(groupId)).lease?.metadata
    expect(await metadataOf('plain')).toBe(metadata)
    await scene.clock.advance(130_000)
    await scene.campaign('b', { groupId: 'led', metadata })
    await expect.poll(() => metadataOf('plain')).toBe('{}')
    expect(await metadataOf('carried')).toBe('{}')
    expect(await metadataOf('defined')).toBe(metadata)
    expect(await metadataOf('led')).toBe(metadata)
    await scene.clock.advance(190_000)
    await expect
      .poll(() => scene.state.group('plain').catch((error: unknown) => error))
      .toMatchObject({ code: 'NOT_FOUND' })
    expect(await scene.state.group('led')).toMatchObject({ highestTerm: 8 })
    expect(await scene.state.leader('carried')).toMatchObject({ lease: { checkpoint: 'page 7', term: 7 } })
    await scene.restart()
    await expect(scene.state.group('plain')).rejects.toMatchObject({ code: 'NOT_FOUND' })
    expect(await scene.state.leader('plain')).toMatchObject({ lease: undefined, highestTerm: 7 })
    expect(await scene.campaign('c', { groupId: 'plain', afterTerm: 6 })).toMatchObject({ granted: false })
    expect(await scene.campaign('c', { groupId: 'plain' })).toMatchObject({ granted: true, lease: { term: 8 } })
  })

  test('a group that is held or has waiting campaigns keeps its data', async () => {
    const scene = await open({ retention: { metadataMs: 1_000, groupMs: 1_000 } })
    await scene.campaign('a', { ttlMs: 60_000 })
    await scene.state.forceResign(held(1))
    const waiting = scene.campaign('b', { waitMs: 600_000 })
    await scene.clock.advance(70_000)
    expect(await waiting).toMatchObject({ granted: true, lease: { term: 2 } })
  })
})

test('a second process cannot open the same data directory', async () => {
  const scene = await open()
  const second = scene.reopen()
  await expect(second).rejects.toThrow(/in use by another process/)
})
