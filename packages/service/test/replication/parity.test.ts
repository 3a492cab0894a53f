/** Tests that a follower answers every call in the same way as the active replica. */
import { fakeClock } from '@tenure/testing'
import { expect, test } from 'vitest'
import { ServiceError } from '../../src/common/errors.ts'
import type { Groups, Page } from '../../src/groups/port.ts'
import { ServingClock } from '../../src/groups/serving-clock.ts'
import { claimOf, here as signal, openCluster, policy, type TestCluster } from './test-cluster.ts'

const held = { groupId: 'jobs', nodeId: 'a', term: 1 }
const strict = { policy: { minTtlMs: 2_000, maxTtlMs: 9_000 }, allowedNodes: ['a', 'b'] }
const loose = { policy, allowedNodes: undefined }
const attempt = 'the one'

type Step = readonly [name: string, ask: (groups: Groups) => unknown]

/** The steps run in this order on one cluster. */
const steps: readonly Step[] = [
  ['nobody has led', (groups) => groups.leader('jobs')],
  ['a group that does not exist', (groups) => groups.group('jobs')],
  ['members of a group that does not exist', (groups) => groups.members('jobs')],
  ['a heartbeat for a group that does not exist', (groups) => groups.heartbeat('jobs', 'a', '{}')],
  ['removal of a group that does not exist', (groups) => groups.remove('jobs', { force: false })],
  [
    'a win',
    (groups) => groups.campaign(claimOf('a', { attempt, metadata: '{"zone":"é\u2028"}', writeId: 'm1' }), signal),
  ],
  ['the same candidacy', (groups) => groups.campaign(claimOf('a', { attempt }), signal)],
  ['a loss', (groups) => groups.campaign(claimOf('b', { attempt: 'other' }), signal)],
  ['a wait of zero', (groups) => groups.campaign(claimOf('b', { attempt: 'other', waitMs: 0 }), signal)],
  ['a lease that is too short', (groups) => groups.campaign(claimOf('b', { attempt: 'other', ttlMs: 1 }), signal)],
  [
    'a term from far ahead',
    (groups) => groups.campaign(claimOf('b', { attempt: 'other', afterTerm: 2 ** 21 }), signal),
  ],
  [
    'a term from far ahead for an administrator',
    (groups) =>
      groups.campaign(claimOf('b', { groupId: 'far', afterTerm: 2 ** 21, byAdministrator: true, attempt }), signal),
  ],
  [
    'a term from too far ahead for an administrator',
    (groups) =>
      groups.campaign(claimOf('b', { groupId: 'far', afterTerm: 2 ** 40, byAdministrator: true, attempt }), signal),
  ],
  ['a renewal', (groups) => groups.renew({ ...held, extendByMs: 5_000, writeId: 'm2' })],
  [
    'a longer renewal with a checkpoint',
    (groups) => groups.renew({ ...held, extendByMs: 8_000, checkpoint: 'page 7' }),
  ],
  ['a renewal of another attempt', (groups) => groups.renew({ ...held, attempt: 'no', extendByMs: 5_000 })],
  ['a renewal of another version', (groups) => groups.renew({ ...held, version: 'no', extendByMs: 5_000 })],
  ['a renewal that is too long', (groups) => groups.renew({ ...held, extendByMs: 90_000 })],
  ['a renewal of another term', (groups) => groups.renew({ ...held, term: 9, extendByMs: 5_000 })],
  ['a renewal in no group', (groups) => groups.renew({ ...held, groupId: 'none', extendByMs: 5_000 })],
  [
    'many renewals: extended, made longer, too long, of another term, in no group',
    async (groups) => [
      await groups.renewMany('a', [['jobs', 1, 5_000]]),
      await groups.renewMany('a', [
        ['jobs', 1, 8_500],
        ['none', 1, 5_000],
      ]),
      await groups.renewMany('a', [['jobs', 1, 90_000]]),
      await groups.renewMany('a', [['jobs', 9, 5_000]]),
      await groups.renewMany('a', []),
    ],
  ],
  ['the leader', (groups) => groups.leader('jobs')],
  ['a heartbeat', (groups) => groups.heartbeat('jobs', 'c', '{"ip":"10.0.0.1"}')],
  ['a heartbeat with an instance', (groups) => groups.heartbeat('jobs', 'c', '{"ip":"10.0.0.1"}', 'start 1')],
  [
    'open watches, one in no group',
    (groups) =>
      groups.reportWatches([
        ['jobs', 'd'],
        ['none', 'd'],
      ]),
  ],
  ['the members', (groups) => groups.members('jobs')],
  ['the group', (groups) => groups.group('jobs')],
  ['a new definition', (groups) => groups.define('orders', strict, { replace: false })],
  ['the same definition', (groups) => groups.define('orders', strict, { replace: false })],
  ['another definition', (groups) => groups.define('orders', loose, { replace: false })],
  ['a node that is not allowed', (groups) => groups.campaign(claimOf('z', { groupId: 'orders', attempt }), signal)],
  ['a heartbeat that is not allowed', (groups) => groups.heartbeat('orders', 'z', '{}')],
  ['a lease out of bounds', (groups) => groups.campaign(claimOf('a', { groupId: 'orders', ttlMs: 60_000 }), signal)],
  ['a definition that replaces it', (groups) => groups.define('orders', loose, { replace: true })],
  ['the group of the definition', (groups) => groups.group('orders')],
  ['many leaders', (groups) => groups.leaders(['jobs', 'orders', 'none'])],
  ['all groups', (groups) => groups.groups({ after: undefined, limit: 10 })],
  ['a page of one', (groups) => groups.groups({ after: undefined, limit: 1 })],
  ['the page after it', (groups) => groups.groups({ after: 'jobs', limit: 1 })],
  [
    'only the visible groups',
    (groups) => groups.groups({ after: undefined, limit: 10, isShown: (id) => id === 'orders' }),
  ],
  ['removal of a group that has a leader', (groups) => groups.remove('jobs', { force: false })],
  ['resignation of another', (groups) => groups.resign({ ...held, nodeId: 'b' })],
  ['resignation of another version', (groups) => groups.resign({ ...held, version: 'no' })],
  ['a resignation', (groups) => groups.resign({ ...held, writeId: 'm3' })],
  ['the resignation again', (groups) => groups.resign({ ...held, writeId: 'm3' })],
  ['the last leader', (groups) => groups.leader('jobs')],
  ['an attempt that was used', (groups) => groups.campaign(claimOf('a', { attempt, attemptIsOnce: true }), signal)],
  ['a term that is outdated', (groups) => groups.campaign(claimOf('b', { attempt: 'b', afterTerm: 0 }), signal)],
  ['another leader', (groups) => groups.campaign(claimOf('b', { attempt: 'b', afterTerm: 1 }), signal)],
  ['a forced end of the term of another node', (groups) => groups.forceResign({ ...held, nodeId: 'c', term: 2 })],
  ['a forced end of a term', (groups) => groups.forceResign({ ...held, nodeId: 'b', term: 2 })],
  ['a group that is held after a forced end', (groups) => groups.leader('jobs')],
  ['removal by force', (groups) => groups.remove('jobs', { force: true })],
  ['a group that is held', (groups) => groups.campaign(claimOf('c', { attempt: 'c' }), signal)],
  ['a group that was removed', (groups) => groups.group('jobs')],
  [
    'a subject with too many groups',
    (groups) => groups.campaign(claimOf('a', { groupId: 'x', subject: 'poor' }), signal),
  ],
  ['a check', (groups) => groups.check()],
]

async function outcomeOf(ask: Step[1], groups: Groups): Promise<unknown> {
  try {
    return { answer: await ask(groups) }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const { code, message, status, details } = error
    return { code, message, status, details }
  }
}

function openParityCluster(): Promise<TestCluster> {
  const chargeNewGroup = (subject: string) => {
    if (subject === 'poor') throw new ServiceError('RATE_LIMITED', 'Too many new groups.', { details: { wait: 1 } })
  }
  // The clock does not advance, so that all answers are comparable.
  const clock = fakeClock()
  return openCluster(2, { groups: { clock: new ServingClock(clock), storageClock: clock, chargeNewGroup } })
}

test('a follower gives the same answer and the same error as the active replica for every method', async () => {
  const [direct, cluster] = [await openParityCluster(), await openParityCluster()]
  const here = direct.replicas[0]?.local
  const there = cluster.replicas[1]?.groups
  if (!here || !there) throw new Error('no replicas')
  const outcomes: unknown[] = []
  for (const [name, ask] of steps) {
    const expected = await outcomeOf(ask, here)
    expect(await outcomeOf(ask, there), name).toEqual(expected)
    outcomes.push(expected)
  }
  // The steps have covered each kind of error.
  const codes = new Set(outcomes.flatMap((outcome) => (outcome as { code?: string }).code ?? []))
  expect([...codes].toSorted()).toEqual(
    ['CONFLICT', 'INVALID_REQUEST', 'INVALID_TTL', 'NOT_FOUND', 'RATE_LIMITED', 'UNAUTHORIZED'].toSorted(),
  )
  expect(new Set(steps.map(([name]) => name)).size).toBe(steps.length)
})

test('the active replica answers from its own groups, and answers plain renewals synchronously', async () => {
  const [direct, cluster] = [await openParityCluster(), await openParityCluster()]
  const here = direct.replicas[0]?.local
  const active = cluster.replicas[0]?.groups
  if (!here || !active) throw new Error('no replicas')
  for (const [name, ask] of steps) expect(await outcomeOf(ask, active), name).toEqual(await outcomeOf(ask, here))
  await active.campaign(claimOf('a', { groupId: 'g', attempt }), signal)
  expect(active.renew({ groupId: 'g', nodeId: 'a', term: 1, extendByMs: 5_000 })).not.toBeInstanceOf(Promise)
  expect(active.renewMany('a', [['g', 1, 5_000]])).toEqual([5_000])
})

test('pages through a follower show every visible group once and in the same order', async () => {
  const { replicas } = await openCluster(2)
  const [active, follower] = replicas
  if (!active || !follower) throw new Error('no replicas')
  const ids = Array.from({ length: 700 }, (_, at) => `g-${String(at).padStart(3, '0')}`)
  await Promise.all(ids.map((groupId) => active.groups.campaign(claimOf('a', { groupId }), signal)))
  await active.groups.remove('g-100', { force: true })
  for (const isShown of [() => true, (id: string) => id.endsWith('7'), (id: string) => id > 'g-690', () => false]) {
    const read = async (groups: Groups) => {
      const pages: Page[] = []
      for (let after: string | undefined; ; after = pages.at(-1)?.next) {
        pages.push(await groups.groups({ after, limit: 40, isShown }))
        if (pages.at(-1)?.next === undefined) return pages
      }
    }
    const shown = (pages: readonly Page[]) =>
      pages.map(({ groups, next, passedOver }) => [groups.map(({ groupId }) => groupId), next, passedOver])
    const expected = shown(await read(active.groups))
    expect(shown(await read(follower.groups))).toEqual(expected)
    expect(expected.flatMap(([some]) => some)).toEqual(ids.filter((id) => id !== 'g-100' && isShown(id)))
  }
})
