/** Tests of groups on a storage whose answers can be lost, in virtual time. */
import { fakeClock } from '@tenure/testing'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ServiceError } from '../../src/common/errors.ts'
import { LocalGroups, type LocalGroupsOptions } from '../../src/groups/local-groups.ts'
import { ServingClock } from '../../src/groups/serving-clock.ts'
import { isAfter, positionOf, type Position } from '../../src/storage/position.ts'
import type { GroupRecord } from '../../src/storage/storage.ts'
import { read, write } from '../storage/data-directories.ts'
import { MemoryStorage } from '../storage/memory-storage.ts'

const unavailable = { code: 'BACKEND_UNAVAILABLE' }
const { signal } = new AbortController()

/** Decides whether this process may answer. The test controls it. */
class Switch {
  isOn = true
  asked = 0

  isProven(): boolean {
    this.asked += 1
    return this.isOn
  }

  assert(): void {
    if (!this.isOn) throw new ServiceError('BACKEND_UNAVAILABLE', 'switched off')
  }

  async waitUntilProven(): Promise<void> {
    this.assert()
  }

  /** Every proof waits for this promise. */
  gate: Promise<void> = Promise.resolve()
  proofs = 0

  async verify(): Promise<void> {
    this.proofs += 1
    await this.gate
    this.assert()
  }

  isLost(): boolean {
    return false
  }

  async stop(): Promise<void> {
    await this.gate
  }
}

async function open(storage = new MemoryStorage(), more: Partial<LocalGroupsOptions> = {}) {
  const clock = fakeClock()
  const authority = new Switch()
  const groups = await LocalGroups.open({
    storage,
    authority,
    clock: new ServingClock(clock),
    storageClock: clock,
    graceMs: 0,
    policy: { minTtlMs: 1_000, maxTtlMs: 60_000 },
    implicitGroups: true,
    maxGroups: 100,
    maxMembersPerGroup: 3,
    memberTtlMs: 60_000,
    ...more,
  })
  onTestFinished(() => groups.close())
  const campaign = (nodeId: string, waitMs = 0) =>
    groups.campaign(
      { groupId: 'jobs', nodeId, attempt: nodeId, attemptIsOnce: false, ttlMs: 5_000, metadata: '{}', waitMs },
      signal,
    )
  return { storage, clock, authority, groups, campaign }
}

const held = { groupId: 'jobs', nodeId: 'a', term: 1 }
const renewal = { ...held, extendByMs: 5_000 }
const claim = { nodeId: 'a', attempt: 'a', attemptIsOnce: false, ttlMs: 5_000, metadata: '{}', waitMs: 0 }

async function kept(storage: MemoryStorage): Promise<GroupRecord | undefined> {
  return (await read(storage)).find(({ id }) => id === 'jobs')?.record
}

describe('start', () => {
  test('LocalGroups refuses every call before serve, and counts every lease and hold from that moment', async () => {
    const storage = new MemoryStorage()
    await write(
      storage,
      { id: 'jobs', record: { term: 1, node: 'a', attempt: 'a', ttl: 5_000, at: 1 } },
      { id: 'held', record: { term: 1, node: 'a', ended: 'deleted', deleted: true, heldMs: 4_000 } },
    )
    const { clock, groups } = await open(storage, { graceMs: 2_000 })
    expect(() => groups.leader('jobs')).toThrow(expect.objectContaining(unavailable))
    await expect(groups.resign(held)).rejects.toMatchObject(unavailable)
    // Loading many groups may take this long.
    await clock.advance(30_000)
    groups.serve()
    expect(await groups.leader('jobs')).toMatchObject({ lease: { term: 1, remainingMs: 7_000, ended: false } })
    expect(await groups.leader('held')).toMatchObject({ lease: undefined, freeInMs: 4_000 })
    await clock.advance(6_999)
    expect(await groups.leader('jobs')).toMatchObject({ lease: { ended: false } })
    await clock.advance(1)
    expect(await groups.leader('jobs')).toMatchObject({ lease: { ended: true } })
    expect(await kept(storage)).toMatchObject({ ended: 'expired' })
  })
})

test('a restart does not shorten the hold of a group that was force-deleted', async () => {
  const storage = new MemoryStorage()
  await write(storage, { id: 'jobs', record: { term: 1, node: 'a', attempt: 'a', ttl: 5_000, at: 1 } })
  const first = await open(storage, { graceMs: 5_000 })
  first.groups.serve()
  await first.clock.advance(1_000)
  await first.groups.remove('jobs', { force: true })
  expect(await first.groups.leader('jobs')).toMatchObject({ freeInMs: 9_000 })
  await first.groups.close()
  const second = await open(storage, { graceMs: 5_000 })
  second.groups.serve()
  expect(await second.groups.leader('jobs')).toMatchObject({ lease: undefined, freeInMs: 9_000 })
})

test('a force-resigned term keeps successors out until its lease would have expired, even after a restart', async () => {
  const storage = new MemoryStorage()
  const first = await open(storage, { graceMs: 5_000 })
  first.groups.serve()
  await first.campaign('a', 5_000)
  await first.clock.advance(1_000)
  expect(await first.groups.forceResign(held)).toMatchObject({ granted: true, lease: { ended: true }, freeInMs: 4_000 })
  expect(await first.groups.renew(renewal)).toMatchObject({ granted: false })
  await first.clock.advance(3_999)
  expect(await first.campaign('b')).toMatchObject({ granted: false })
  const second = await open(storage, { graceMs: 5_000 })
  second.groups.serve()
  await second.clock.advance(4_999)
  expect(await second.campaign('b')).toMatchObject({ granted: false })
  await second.clock.advance(1)
  expect(await second.campaign('b')).toMatchObject({ granted: true, lease: { term: 2 } })
})

describe('writes without an answer', () => {
  test('a renewal fails after a resignation with an unknown outcome until another write succeeds', async () => {
    for (const fault of ['lost', 'unheard', 'late'] as const) {
      const { storage, groups, campaign } = await open()
      groups.serve()
      await campaign('a')
      storage.faults.push(fault, 'lost')
      await expect(groups.resign(held)).rejects.toMatchObject(unavailable)
      // The storage may have recorded the end of this lease. Nothing may be confirmed before that is settled.
      await expect(async () => groups.renew(renewal)).rejects.toMatchObject(unavailable)
      await expect(campaign('a')).resolves.toMatchObject({ granted: true, lease: { term: 1 } })
      expect(await groups.renew(renewal)).toMatchObject({ granted: true })
      expect(storage.deliver()).toEqual(fault === 'late' ? ['fenced'] : [])
      expect(await kept(storage), fault).not.toHaveProperty('ended')
    }
  })

  test('the term of a grant with an unknown outcome is not granted again', async () => {
    for (const fault of ['lost', 'unheard', 'late'] as const) {
      const { storage, groups, campaign } = await open()
      groups.serve()
      storage.faults.push(fault)
      await expect(campaign('a')).rejects.toMatchObject(unavailable)
      expect(await campaign('b'), fault).toMatchObject({ granted: true, lease: { nodeId: 'b', term: 2 } })
      storage.deliver()
      expect(await kept(storage)).toMatchObject({ node: 'b', term: 2 })
    }
  })

  test('a write that takes longer than 5 s fails with an unknown outcome and takes effect once it is done', async () => {
    const { storage, clock, groups, campaign } = await open()
    groups.serve()
    let release = () => {}
    storage.gate = new Promise((resolve) => (release = resolve))
    const refused = expect(campaign('a')).rejects.toMatchObject(unavailable)
    await clock.advance(5_000)
    await refused
    release()
    await clock.advance(0)
    expect(await groups.leader('jobs')).toMatchObject({ lease: { nodeId: 'a', term: 1 } })
  })
})

test('a group keeps the written state when an onWrite listener throws', async () => {
  const thrown = new Error('thrown by the listener')
  let throws = true
  const onWrite = () => {
    if (throws) throw thrown
  }
  const { storage, groups, campaign } = await open(new MemoryStorage(), { onWrite })
  groups.serve()
  await expect(campaign('a')).rejects.toBe(thrown)
  expect(groups.leader('jobs')).toMatchObject({ lease: { nodeId: 'a', term: 1, ended: false } })
  storage.faults.push('unheard')
  await expect(groups.resign(held)).rejects.toBe(thrown)
  throws = false
  // After an unknown outcome, the lease is written again before it is confirmed.
  const renewed = groups.renew(renewal)
  expect(renewed).toBeInstanceOf(Promise)
  expect(await renewed).toMatchObject({ granted: true })
})

describe('reads that wait for a write of the group', () => {
  const definition = { policy: { minTtlMs: 1_000, maxTtlMs: 60_000 }, allowedNodes: undefined }
  const notFound = { status: 'rejected', reason: { code: 'NOT_FOUND' } }

  test('a read reports NOT_FOUND when the write that would have created the group fails', async () => {
    const { storage, groups } = await open()
    groups.serve()
    storage.faults.push('lost')
    const defined = groups.define('jobs', definition, { replace: false })
    const asked = Promise.allSettled([groups.group('jobs'), groups.members('jobs')])
    await expect(defined).rejects.toMatchObject(unavailable)
    expect(await asked).toMatchObject([notFound, notFound])
  })

  test('a read reports NOT_FOUND when the write that it waited for deleted the group', async () => {
    const { groups } = await open()
    groups.serve()
    for (const id of ['jobs', 'others']) await groups.define(id, definition, { replace: false })
    const removed = groups.remove('jobs', { force: true })
    const asked = Promise.allSettled([groups.group('jobs'), groups.members('jobs')])
    const page = await groups.groups({ after: undefined, limit: 9 })
    await removed
    expect(await asked).toMatchObject([notFound, notFound])
    expect(page).toMatchObject({ groups: [{ groupId: 'others' }], passedOver: 1 })
  })
})

describe('a process without authority', () => {
  test('LocalGroups answers no call while its authority is not proven', async () => {
    const { authority, groups, campaign } = await open()
    groups.serve()
    await campaign('a')
    authority.isOn = false
    const asked: Record<string, () => unknown> = {
      'the same candidacy': () => campaign('a'),
      another: () => campaign('b'),
      'a renewal': () => groups.renew(renewal),
      'a renewal that is refused': () => groups.renew({ ...renewal, term: 9 }),
      'a renewal in no group': () => groups.renew({ ...renewal, groupId: 'none' }),
      'a resignation': () => groups.resign(held),
      'a resignation that is refused': () => groups.resign({ ...held, term: 9 }),
      'who leads': () => groups.leader('jobs'),
      'a group': () => groups.group('jobs'),
      'no group': () => groups.group('none'),
      'all groups': () => groups.groups({ after: undefined, limit: 9 }),
      'no groups at all': () => groups.groups({ after: 'jobs', limit: 9 }),
      members: () => groups.members('jobs'),
      'members of no group': () => groups.members('none'),
      'a heartbeat': () => groups.heartbeat('jobs', 'b', '{}'),
      'an open watch': () => groups.reportWatches([['jobs', 'b']]),
      'a heartbeat in no group': () => groups.heartbeat('none', 'b', '{}'),
      'a removal of no group': () => groups.remove('none', { force: true }),
      'a removal': () => groups.remove('jobs', { force: true }),
      'a definition': () =>
        groups.define('jobs', { policy: { minTtlMs: 1, maxTtlMs: 2 }, allowedNodes: undefined }, { replace: true }),
    }
    const expectSilence = async () => {
      for (const [what, ask] of Object.entries(asked)) {
        await expect(async () => ask(), what).rejects.toMatchObject(unavailable)
      }
    }
    await expectSilence()
    authority.isOn = true
    expect(await groups.renew(renewal)).toMatchObject({ granted: true })
    expect(await groups.members('jobs')).toHaveLength(1)
    await groups.close()
    await expectSilence()
  })

  test('LocalGroups returns no page when its authority was lost while the page was built', async () => {
    const { authority, groups, campaign } = await open()
    groups.serve()
    await campaign('a')
    const isShown = () => (authority.isOn = false)
    await expect(groups.groups({ after: undefined, limit: 9, isShown })).rejects.toMatchObject(unavailable)
  })

  test('LocalGroups does not answer a write that finished after its authority was lost', async () => {
    const { storage, clock, authority, groups, campaign } = await open()
    groups.serve()
    let release = () => {}
    storage.gate = new Promise((resolve) => (release = resolve))
    const refused = expect(campaign('a')).rejects.toMatchObject(unavailable)
    await clock.advance(0)
    authority.isOn = false
    release()
    await refused
    expect(await kept(storage)).toMatchObject({ node: 'a', term: 1 })
  })

  test('a renewal checks the authority in the same step in which it is answered', async () => {
    const { authority, groups, campaign } = await open()
    groups.serve()
    await campaign('a')
    const before = authority.asked
    expect(groups.renew(renewal)).not.toBeInstanceOf(Promise)
    expect(authority.asked).toBe(before + 1)
  })
})

test('a renewal succeeds when the lease expires while a longer one is being written', async () => {
  const { storage, clock, groups, campaign } = await open()
  groups.serve()
  await campaign('a')
  await clock.advance(4_000)
  let release = () => {}
  storage.gate = new Promise((resolve) => (release = resolve))
  const carried = groups.renew({ ...renewal, checkpoint: 'last run' })
  await clock.advance(2_000)
  const plain = groups.renew(renewal)
  await clock.advance(10)
  release()
  expect(await carried).toMatchObject({ granted: true, lease: { remainingMs: 2_990 } })
  expect(await plain).toMatchObject({ granted: true, lease: { ended: false } })
})

describe('check', () => {
  test('check does not call a storage that is closed while the check waits for a proof of ownership', async () => {
    const uses: string[] = []
    const storage = new (class extends MemoryStorage {
      override async check(): Promise<void> {
        uses.push('check')
      }
      override async close(): Promise<void> {
        uses.push('close')
      }
    })()
    const { authority, groups } = await open(storage)
    groups.serve()
    await groups.check()
    let release = () => {}
    authority.gate = new Promise((resolve) => (release = resolve))
    const refused = expect(groups.check()).rejects.toMatchObject(unavailable)
    const closed = groups.close()
    release()
    await Promise.all([refused, closed])
    await expect(groups.check()).rejects.toMatchObject(unavailable)
    expect(uses).toEqual(['check', 'close'])
    expect(authority.proofs).toBe(2)
  })
})

test('LocalGroups refuses every call after another replica has written', async () => {
  const { storage, groups, campaign } = await open()
  groups.serve()
  await campaign('a')
  await write(storage, { id: 'jobs', record: { term: 2, node: 'b', attempt: 'b', ttl: 5_000, at: 1 } })
  await expect(groups.resign(held)).rejects.toMatchObject(unavailable)
  const asked = [
    () => groups.renew(renewal),
    () => groups.leader('jobs'),
    () => campaign('c'),
    () => groups.group('none'),
    () => groups.heartbeat('jobs', 'b', '{}'),
    () => groups.reportWatches([['jobs', 'b']]),
    () => groups.groups({ after: 'jobs', limit: 9 }),
  ]
  for (const ask of asked) {
    await expect(async () => ask()).rejects.toMatchObject(unavailable)
  }
  expect(await kept(storage)).toMatchObject({ term: 2, node: 'b' })
})

test('a thousand renewals write nothing', async () => {
  const { storage, groups, campaign } = await open()
  groups.serve()
  await campaign('a')
  const before = storage.handedIn.length
  for (let count = 0; count < 1_000; count++) expect(groups.renew(renewal)).toMatchObject({ granted: true })
  expect(storage.handedIn.length).toBe(before)
})

describe('a watcher that resumes after a crash', () => {
  /** The ids of groups that changed after `position`, and the state of the group after a crash. */
  async function afterCrash(storage: MemoryStorage, position: Position) {
    const { groups } = await open(storage)
    groups.serve()
    return { changed: [...((await groups.changedAfter(position, 10)) ?? [])], standing: await groups.leader('jobs') }
  }

  test('a resumed watcher learns of a write that took effect even though its caller got an error', async () => {
    const { storage, groups, campaign } = await open()
    groups.serve()
    await campaign('a')
    const { position } = groups
    storage.faults.push('unheard')
    await expect(groups.resign(held)).rejects.toMatchObject(unavailable)
    const { changed, standing } = await afterCrash(storage, position)
    expect(changed).toEqual(['jobs'])
    expect(standing).toMatchObject({ lease: { term: 1, ended: true } })
  })

  test('a write with an unknown outcome is undone before a change of another group moves watchers past it', async () => {
    const { storage, groups, campaign } = await open()
    groups.serve()
    await campaign('a')
    storage.faults.push('unheard')
    await expect(groups.resign(held)).rejects.toMatchObject(unavailable)
    await groups.campaign({ ...claim, groupId: 'other' }, signal)
    const { changed, standing } = await afterCrash(storage, groups.position)
    expect(changed).toEqual([])
    // The last change that the watcher received is still current.
    expect(standing).toMatchObject({ lease: { term: 1, ended: false } })
  })

  test('a group whose creation was rolled back does not exist after a crash', async () => {
    const { storage, groups, campaign } = await open()
    groups.serve()
    storage.faults.push('unheard')
    const definition = { policy: { minTtlMs: 1_000, maxTtlMs: 2_000 }, allowedNodes: undefined }
    await expect(groups.define('other', definition, { replace: false })).rejects.toMatchObject(unavailable)
    await campaign('a')
    await expect((async () => groups.group('other'))()).rejects.toMatchObject({ code: 'NOT_FOUND' })
    const { groups: again } = await open(storage)
    again.serve()
    await expect(again.group('other')).rejects.toMatchObject({ code: 'NOT_FOUND' })
    expect(again.groupCount).toBe(1)
  })
})

test('changes are emitted in the order of their positions, and each position is unique', async () => {
  const { storage, clock, groups } = await open()
  groups.serve()
  const told: Position[] = []
  groups.listen({ onChange: ({ position }) => void told.push(position) })
  const ids = ['a', 'b', 'c', 'd']
  const all = () => Promise.all(ids.map((groupId) => groups.campaign({ ...claim, groupId }, signal)))
  await all()
  // Each grant ends an expired term whose end nobody has written yet.
  storage.gate = new Promise((resolve) => setImmediate(resolve))
  await clock.advance(5_000)
  await all()
  expect(told.length).toBeGreaterThanOrEqual(12)
  for (const [at, position] of told.entries())
    if (at > 0) expect(isAfter(position, told[at - 1] as Position)).toBe(true)
  expect(told.at(-1)).toEqual(positionOf(await storage.head()))
  expect(groups.reaches(positionOf(await storage.head()))).toBe(true)
  expect(groups.reaches({ ...positionOf(await storage.head()), seq: 1_000 })).toBe(false)
})
