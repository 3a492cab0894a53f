/** The guarantees of groups that users and operators rely on, as checks that a mutant can fail. */
import { deepEqual, equal, notEqual, ok } from 'node:assert/strict'
import { fakeClock } from '@tenure/testing'
import type * as groupModule from '../../src/groups/in-memory-group.ts'
import type { OpenWatch } from '../../src/groups/port.ts'
import type * as membersModule from '../../src/groups/members.ts'
import type * as rulesModule from '../../src/groups/rules.ts'
import type * as feedModule from '../../src/watch/feed.ts'
import type * as presenceModule from '../../src/watch/presence.ts'

export interface GroupModules {
  readonly group: typeof groupModule
  readonly rules: typeof rulesModule
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
