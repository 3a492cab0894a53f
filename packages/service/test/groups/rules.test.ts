/** Tests of the rules of groups, without a clock or storage. */
import { describe, expect, test } from 'vitest'
import { Group, GroupLease, type LeaseGrant } from '../../src/groups/in-memory-group.ts'
import {
  judgeCampaign,
  judgeDefinition,
  judgeForcedResignation,
  judgeExpiry,
  judgeRemoval,
  judgeRenewal,
  judgeResignation,
  type DecisionContext,
} from '../../src/groups/rules.ts'

const at = (monotonicMs: number, more: Partial<DecisionContext> = {}): DecisionContext => ({
  monotonicMs,
  wallMs: 1_000_000 + monotonicMs,
  policy: { minTtlMs: 1_000, maxTtlMs: 60_000 },
  versionPrefix: 'run',
  doubtful: false,
  noRoom: undefined,
  ...more,
})

/** A group whose term 1 is held by "a" until 5,000. */
function led(more: Partial<LeaseGrant> = {}): Group {
  const group = new Group('jobs', 1)
  const grant = { term: 1, nodeId: 'a', attempt: 'x', metadata: '{}', acquiredAtMs: 7, ttlMs: 5_000, ...more }
  group.lease = new GroupLease(group, grant, 5_000, { stalledMs: 0, startMs: 0 })
  return group
}

const claim = {
  groupId: 'jobs',
  nodeId: 'b',
  attempt: 'y',
  attemptIsOnce: false,
  ttlMs: 3_000,
  metadata: '{}',
  waitMs: 0,
  isFirst: true,
}
const held = { groupId: 'jobs', nodeId: 'a', term: 1 }

/** Checks that a decision changes neither the group nor its lease. */
function unchanged<T>(group: Group, judge: () => T): T {
  const state = () => {
    const text = JSON.stringify(group, (key, value: unknown) => (key === 'group' ? undefined : value))
    return [text, group.lease?.expiresAtMs]
  }
  const before = state()
  const ruling = judge()
  expect(state()).toEqual(before)
  return ruling
}

describe('judgeCampaign', () => {
  test('a campaign is granted the next term of a free group, as a complete record', () => {
    const group = new Group('jobs', 4)
    group.checkpoint = 'page 7'
    const ruling = unchanged(group, () => judgeCampaign(group, { ...claim, metadata: '{"zone":1}' }, at(100)))
    expect(ruling).toMatchObject({
      write: {
        record: {
          term: 5,
          node: 'b',
          attempt: 'y',
          ttl: 3_000,
          at: 1_000_100,
          meta: '{"zone":1}',
          checkpoint: 'page 7',
        },
        step: { type: 'grant', grant: { term: 5, nodeId: 'b', ttlMs: 3_000 } },
      },
    })
  })

  test('a campaign waits until the lease has ended and until earlier campaigns are served', () => {
    expect(judgeCampaign(led(), claim, at(4_999))).toEqual({ answer: 'wait' })
    expect(judgeCampaign(led(), { ...claim, isFirst: false }, at(5_000))).toEqual({ answer: 'wait' })
    expect(judgeCampaign(led(), claim, at(5_000))).toMatchObject({ write: { step: { grant: { term: 2 } } } })
  })

  test('a campaign waits while the group is held, even though nobody leads it', () => {
    const group = new Group('jobs', 1)
    group.hold = { untilMs: 900, heldMs: 5_000 }
    expect(judgeCampaign(group, claim, at(899))).toEqual({ answer: 'wait' })
    const ruling = judgeCampaign(group, claim, at(900))
    expect(ruling).toMatchObject({ write: { step: { type: 'grant' } } })
    expect(ruling).not.toHaveProperty('write.record.heldMs')
  })

  test('a repeated candidacy gets its term, but only after another write if the outcome of the last write is unknown', () => {
    const same = { ...claim, nodeId: 'a', attempt: 'x' }
    expect(judgeCampaign(led(), same, at(10))).toEqual({ answer: 'granted' })
    expect(judgeCampaign(led(), { ...same, nodeId: 'b' }, at(10))).toEqual({ answer: 'wait' })
    expect(judgeCampaign(led(), same, at(10, { doubtful: true }))).toMatchObject({
      write: { record: { term: 1, node: 'a' }, step: { type: 'confirm' } },
    })
  })

  test('a campaign is refused after a higher term, a used attempt, or the last possible term', () => {
    expect(judgeCampaign(led(), { ...claim, afterTerm: 0 }, at(5_000))).toEqual({ answer: 'refused' })
    const once = { ...claim, attempt: 'x', attemptIsOnce: true }
    expect(judgeCampaign(led(), once, at(5_000))).toEqual({ answer: 'refused' })
    const last = new Group('jobs', Number.MAX_SAFE_INTEGER)
    expect(judgeCampaign(last, claim, at(0))).toMatchObject({ answer: { code: 'CONFLICT' } })
    expect(judgeCampaign(led(), { ...claim, afterTerm: 2 ** 20 + 2 }, at(0))).toMatchObject({
      answer: { code: 'INVALID_REQUEST' },
    })
  })

  test('a campaign must comply with the definition of the group', () => {
    const group = new Group('jobs', 0)
    group.definition = { policy: { minTtlMs: 4_000, maxTtlMs: 5_000 }, allowedNodes: ['b'] }
    expect(judgeCampaign(group, claim, at(0))).toMatchObject({ answer: { code: 'INVALID_TTL' } })
    expect(judgeCampaign(group, { ...claim, nodeId: 'c', ttlMs: 4_000 }, at(0))).toMatchObject({
      answer: { code: 'UNAUTHORIZED' },
    })
    expect(judgeCampaign(group, { ...claim, ttlMs: 4_000 }, at(0))).toMatchObject({
      write: { record: { min: 4_000, max: 5_000, allowed: ['b'] } },
    })
  })
})

describe('judgeRenewal', () => {
  test('a renewal is written only when it promises more than the storage has recorded', () => {
    expect(unchanged(led(), () => judgeRenewal(led(), { ...held, extendByMs: 5_000 }, at(4_999)))).toEqual({
      answer: 'extended',
    })
    expect(judgeRenewal(led(), { ...held, extendByMs: 5_001 }, at(0))).toMatchObject({
      write: { record: { ttl: 5_001 }, step: { type: 'add', promisedMs: 5_001 } },
    })
    expect(judgeRenewal(led(), { ...held, extendByMs: 2_000, checkpoint: 'p' }, at(0))).toMatchObject({
      write: { record: { ttl: 5_000, checkpoint: 'p' }, step: { type: 'add', promisedMs: 5_000, checkpoint: 'p' } },
    })
    expect(judgeRenewal(led(), { ...held, extendByMs: 2_000 }, at(0, { doubtful: true }))).toMatchObject({
      write: { record: { ttl: 5_000 } },
    })
  })

  test.each([
    ['another node', { nodeId: 'b' }, 0],
    ['another term', { term: 2 }, 0],
    ['another attempt', { attempt: 'z' }, 0],
    ['another version', { version: 'run.1.1' }, 0],
    ['an expired lease', {}, 5_000],
  ])('a renewal is refused for %s', (_what, change, nowMs) => {
    const group = led()
    expect(unchanged(group, () => judgeRenewal(group, { ...held, extendByMs: 5_000, ...change }, at(nowMs)))).toEqual({
      answer: 'refused',
    })
    expect(judgeRenewal(group, { ...held, extendByMs: 5_000, version: 'run.1.0', attempt: 'x' }, at(0))).toEqual({
      answer: 'extended',
    })
  })
})

test('another instance of the node can neither renew nor end a lease, unless the call or the grant has no instance', () => {
  const other = { ...held, instance: 'two' }
  const group = led({ instance: 'one' })
  expect(judgeRenewal(group, { ...other, extendByMs: 5_000 }, at(0))).toEqual({ answer: 'refused' })
  expect(judgeResignation(group, other, at(0))).toEqual({ answer: 'refused' })
  expect(judgeForcedResignation(group, other, at(0))).toEqual({ answer: 'refused' })
  for (const same of [held, { ...held, instance: 'one' }]) {
    expect(judgeRenewal(group, { ...same, extendByMs: 5_000 }, at(0))).toEqual({ answer: 'extended' })
    expect(judgeResignation(group, same, at(0))).toMatchObject({ write: { record: { ended: 'resigned' } } })
  }
  expect(judgeRenewal(led(), { ...other, extendByMs: 5_000 }, at(0))).toEqual({ answer: 'extended' })
  expect(judgeResignation(led(), other, at(0))).toMatchObject({ write: { record: { ended: 'resigned' } } })
})

test('a leader that the definition no longer allows cannot renew, keeps its lease, and may resign', () => {
  const group = led()
  group.definition = { policy: { minTtlMs: 1_000, maxTtlMs: 60_000 }, allowedNodes: ['b'] }
  for (const more of [{}, { extendByMs: 9_000 }, { checkpoint: 'p' }]) {
    const ruling = unchanged(group, () => judgeRenewal(group, { ...held, extendByMs: 5_000, ...more }, at(4_999)))
    expect(ruling).toMatchObject({ answer: { code: 'UNAUTHORIZED' } })
  }
  expect(judgeRenewal(group, { ...held, extendByMs: 5_000 }, at(5_000))).toEqual({ answer: 'refused' })
  expect(judgeCampaign(group, claim, at(4_999))).toEqual({ answer: 'wait' })
  expect(judgeCampaign(group, claim, at(5_000))).toMatchObject({ write: { record: { term: 2, node: 'b' } } })
  expect(judgeResignation(group, held, at(0))).toMatchObject({ write: { record: { ended: 'resigned' } } })
})

test('a resignation is written with its reason, may be repeated, and must match version and term', () => {
  expect(judgeResignation(led(), held, at(0))).toMatchObject({
    write: { record: { term: 1, ended: 'resigned' }, step: { type: 'end', reason: 'resigned' } },
  })
  expect(judgeResignation(led(), { ...held, version: 'run.1.9' }, at(0))).toEqual({ answer: 'refused' })
  expect(judgeResignation(led(), { ...held, term: 2 }, at(0))).toEqual({ answer: 'refused' })
  const over = led()
  if (over.lease) over.lease.end = 'expired'
  expect(judgeResignation(over, held, at(0))).toEqual({ answer: 'done' })
})

test('an expiry is written only once the lease has expired', () => {
  expect(judgeExpiry(led(), at(4_999))).toEqual({ answer: 'known' })
  expect(judgeExpiry(led(), at(5_000))).toMatchObject({ write: { record: { ended: 'expired' } } })
  expect(judgeExpiry(new Group('jobs', 0), at(0))).toEqual({ answer: 'known' })
})

test('removing a group with a leader needs force and holds the group for the rest of the lease', () => {
  expect(judgeRemoval(led(), { force: false }, at(0))).toMatchObject({ answer: { code: 'CONFLICT' } })
  const group = led()
  group.checkpoint = 'p'
  const removal = unchanged(group, () => judgeRemoval(group, { force: true }, at(1_000)))
  expect(removal).toMatchObject({
    write: {
      record: { term: 1, ended: 'deleted', deleted: true, heldMs: 5_000 },
      step: { type: 'delete', hold: { untilMs: 5_000, heldMs: 5_000 } },
    },
  })
  expect(removal).not.toHaveProperty('write.record.checkpoint')
  expect(judgeRemoval(led(), { force: false }, at(5_000))).toMatchObject({ write: { step: { hold: undefined } } })
  // The reason of the earlier end is kept.
  const over = led()
  if (over.lease) over.lease.end = 'resigned'
  expect(judgeRemoval(over, { force: false }, at(0))).toMatchObject({ write: { record: { ended: 'resigned' } } })
})

test('a definition does not revive an ended term, and is refused when there is no room for the group', () => {
  const definition = { policy: { minTtlMs: 1, maxTtlMs: 2 }, allowedNodes: undefined }
  const over = led()
  if (over.lease) over.lease.end = 'expired'
  expect(judgeDefinition(over, { definition, replace: false }, at(0))).toMatchObject({
    write: { record: { term: 1, ended: 'expired', min: 1, max: 2 }, step: { isNew: true } },
  })
  const deleted = led()
  deleted.deleted = true
  const noRoom = { code: 'RATE_LIMITED', message: '', details: {} } as const
  expect(judgeDefinition(deleted, { definition, replace: false }, at(0, { noRoom }))).toEqual({ answer: noRoom })
})

test('a force-resigned term ends at once and holds the group for the rest of its lease', () => {
  const group = led()
  expect(unchanged(group, () => judgeForcedResignation(group, held, at(1_000)))).toMatchObject({
    write: {
      record: { term: 1, ended: 'resigned', heldMs: 5_000 },
      step: { type: 'end', reason: 'resigned', hold: { untilMs: 5_000, heldMs: 5_000 } },
    },
  })
  for (const other of [{ nodeId: 'b' }, { term: 2 }]) {
    expect(judgeForcedResignation(led(), { ...held, ...other }, at(0))).toEqual({ answer: 'refused' })
  }
  // A term that has already expired does not keep others out, and is recorded as expired.
  const late = judgeForcedResignation(led(), held, at(5_000))
  expect(late).toMatchObject({ write: { record: { ended: 'expired' } } })
  expect(late).not.toHaveProperty('write.record.heldMs')
  const over = led()
  if (over.lease) over.lease.end = 'resigned'
  expect(judgeForcedResignation(over, held, at(0))).toEqual({ answer: 'done' })
})
