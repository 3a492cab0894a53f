/** The guarantees of groups that users and operators rely on, as checks that a mutant can fail. */
import { deepEqual, equal, notEqual, ok } from 'node:assert/strict'
import { fakeClock } from '@tenure/testing'
import type * as groupModule from '../../src/groups/in-memory-group.ts'
import type { OpenWatch } from '../../src/groups/port.ts'
import type * as membersModule from '../../src/groups/members.ts'
import type * as queueModule from '../../src/groups/campaign-queue.ts'
import type * as rulesModule from '../../src/groups/rules.ts'
import type * as feedModule from '../../src/watch/feed.ts'
import type * as presenceModule from '../../src/watch/presence.ts'

export interface GroupModules {
  readonly group: typeof groupModule
  readonly rules: typeof rulesModule
  readonly queue: typeof queueModule
  readonly members: typeof membersModule
  readonly feed: typeof feedModule
  readonly presence: typeof presenceModule
}

const policy = { minTtlMs: 1_000, maxTtlMs: 60_000 }
const at = (monotonicMs: number): rulesModule.DecisionContext => ({
  monotonicMs,
  wallMs: monotonicMs,
  policy,
  versionPrefix: 'run',
  doubtful: false,
  noRoom: undefined,
})
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
const renewal = { groupId: 'jobs', nodeId: 'a', term: 1, extendByMs: 5_000 }

/** A group whose term 1 is held by "a" until 5,000. */
function led({ group: { Group, GroupLease } }: GroupModules, instance?: string) {
  const group = new Group('jobs', 1)
  const grant = { term: 1, nodeId: 'a', attempt: 'x', instance, metadata: '{}', acquiredAtMs: 0, ttlMs: 5_000 }
  group.lease = new GroupLease(group, grant, 5_000, { stalledMs: 0, startMs: 0 })
  return group
}

function removed(modules: GroupModules) {
  const group = led(modules)
  group.definition = { policy, allowedNodes: ['b'] }
  return group
}

/** The same group after "a" resigned at 1,000 in favor of "c". With a hold, an administrator ended the term. */
function handedOver(modules: GroupModules, hold?: { readonly untilMs: number }) {
  const group = led(modules)
  group.lease?.handOver('c', 1_000)
  if (group.lease) group.lease.end = 'resigned'
  if (hold) group.hold = { ...hold, heldMs: 5_000 }
  return group
}

const isGranted = (ruling: object) => 'write' in ruling

const known = { allowed: [], last: undefined, waiting: new Set<string>(), nowMs: 0 }

export const groupChecks: Readonly<Record<string, (modules: GroupModules) => Promise<void>>> = {
  async 'a leader that is no longer allowed cannot renew'(modules) {
    const ruling = modules.rules.judgeRenewal(removed(modules), renewal, at(0))
    ok('answer' in ruling && typeof ruling.answer === 'object')
    equal(ruling.answer.code, 'UNAUTHORIZED')
  },

  async 'a campaign waits until the lease of a removed leader has ended'(modules) {
    deepEqual(modules.rules.judgeCampaign(removed(modules), claim, at(4_999)), { answer: 'wait' })
  },

  async 'an expired lease counts as ended only once its end is durable'(modules) {
    const { lease } = led(modules)
    ok(lease)
    // The lease may expire between the decision about an answer and the answer itself.
    const shown = () => {
      const { ended, remainingMs } = modules.group.viewOf(lease, 5_000, 'run')
      return { ended, remainingMs }
    }
    deepEqual(shown(), { ended: false, remainingMs: 0 })
    lease.end = 'expired'
    deepEqual(shown(), { ended: true, remainingMs: 0 })
  },

  async 'another instance of the node cannot renew'(modules) {
    const ruling = modules.rules.judgeRenewal(led(modules, 'one'), { ...renewal, instance: 'two' }, at(0))
    deepEqual(ruling, { answer: 'refused' })
  },

  async 'any instance renews a lease that was granted without an instance'(modules) {
    const ruling = modules.rules.judgeRenewal(led(modules), { ...renewal, instance: 'two' }, at(0))
    deepEqual(ruling, { answer: 'extended' })
  },

  async 'a grant records the instance of its node'({ group: { Group }, rules }) {
    const ruling = rules.judgeCampaign(new Group('jobs', 0), { ...claim, instance: 'one' }, at(0))
    ok('write' in ruling)
    equal(ruling.write.record.instance, 'one')
  },

  async 'another node waits for a named successor'(modules) {
    const { judgeCampaign } = modules.rules
    deepEqual(judgeCampaign(handedOver(modules), claim, at(2_999)), { answer: 'wait' })
    ok(isGranted(judgeCampaign(handedOver(modules), { ...claim, nodeId: 'c' }, at(1_000))))
  },

  async 'the wait for a named successor ends after 2 s'(modules) {
    ok(isGranted(modules.rules.judgeCampaign(handedOver(modules), claim, at(3_000))))
  },

  async 'the wait for a successor counts from the end of a hold'(modules) {
    const { judgeCampaign } = modules.rules
    const held = () => handedOver(modules, { untilMs: 5_000 })
    for (const nodeId of ['b', 'c']) {
      deepEqual(judgeCampaign(held(), { ...claim, nodeId }, at(4_999)), { answer: 'wait' })
    }
    deepEqual(judgeCampaign(held(), claim, at(6_999)), { answer: 'wait' })
    ok(isGranted(judgeCampaign(held(), { ...claim, nodeId: 'c' }, at(5_000))))
    ok(isGranted(judgeCampaign(held(), claim, at(7_000))))
  },

  async 'no campaign waits for a successor that is not allowed in the group'(modules) {
    const group = handedOver(modules)
    group.definition = { policy, allowedNodes: ['a', 'b'] }
    ok(isGranted(modules.rules.judgeCampaign(group, claim, at(1_000))))
  },

  async 'a named successor overtakes the queue only while the others wait'(modules) {
    const group = handedOver(modules)
    const [other, named] = ['b', 'c'].map((nodeId) => modules.queue.newWaiter(nodeId))
    ok(other && named)
    group.campaignQueue = new Set([other, named])
    const first = (waiter: typeof other, nowMs: number) =>
      modules.queue.isFirstInQueue(group, { nodeId: waiter.nodeId, waiter, nowMs })
    deepEqual([first(named, 1_000), first(named, 3_000), first(other, 3_000)], [true, false, true])
  },

  async 'the end of a lease wakes the first campaign and the successor'(modules) {
    const group = handedOver(modules)
    const woken: string[] = []
    const waiters = ['b', 'd', 'c'].map((nodeId) => ({ nodeId, wake: () => void woken.push(nodeId) }))
    group.campaignQueue = new Set(waiters)
    modules.queue.wakeQueue(group)
    deepEqual(woken, ['b', 'c'])
  },

  async 'two cursors for the same position differ'({ feed: { Feed } }) {
    const position = { restores: 0, term: 0, seq: 1, index: 0 }
    const feed = new Feed({ secret: 'secret', position })
    notEqual(feed.cursorAt(position), feed.cursorAt(position))
  },

  async 'an open watch makes a standby live for a limited time'({ members: { Members } }) {
    const members = new Members({ memberTtlMs: 600_000, maxMembersPerGroup: 10 })
    members.markPresent('jobs', 'b', 0, 15_000)
    const live = (monotonicMs: number) =>
      members.list('jobs', { ...known, leaderId: 'a', monotonicMs }).map((member) => member.live)
    deepEqual([live(14_999), live(15_000)], [[true], [false]])
  },

  async 'the leader does not count as its own standby'({ members: { Members } }) {
    const members = new Members({ memberTtlMs: 600_000, maxMembersPerGroup: 10 })
    for (const node of ['a', 'b']) members.markPresent('jobs', node, 0, 15_000)
    deepEqual(members.count('jobs', { ...known, leaderId: 'a', monotonicMs: 0 }), { candidates: 1, standbys: 1 })
  },

  async 'presence reports an open watch until it is closed'({ presence: { WatchPresence } }) {
    const clock = fakeClock()
    const told: number[] = []
    const present = (open: readonly OpenWatch[]) => void told.push(open.length)
    const leave = new WatchPresence({ reportWatches: present }, clock).enter(['jobs'], 'b')
    await clock.advance(5_000)
    await clock.advance(5_000)
    leave()
    await clock.advance(60_000)
    deepEqual(told, [1, 1, 1])
  },
}
