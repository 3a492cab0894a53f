import type { Mutation } from '../../../../test/mutants/mutant.ts'

/** A mutant of the groups, and the check in group-checks.ts that must catch it. */
export interface GroupMutation extends Mutation {
  readonly caughtBy: string
}

const rules = 'groups/rules.ts'
const group = 'groups/in-memory-group.ts'
const members = 'groups/members.ts'
const presence = 'watch/presence.ts'
const successor = 'groups/successor.ts'
const queue = 'groups/campaign-queue.ts'

/** Every mutant must be caught. */
export const groupMutations: readonly GroupMutation[] = [
  {
    name: 'a leader that is no longer allowed can still renew',
    file: rules,
    find: "refusalOfNode(group, claim.nodeId, 'no longer allowed') ??",
    replace: '',
    caughtBy: 'a leader that is no longer allowed cannot renew',
  },
  {
    name: 'a leader that is no longer allowed loses its lease at once',
    file: rules,
    find: 'if (lease?.isLive(now.monotonicMs)) {',
    replace: 'if (lease?.isLive(now.monotonicMs) && !refusalOfNode(group, lease.nodeId)) {',
    caughtBy: 'a campaign waits until the lease of a removed leader has ended',
  },
  {
    name: 'a lease that has just expired is shown as ended although nothing was written',
    file: group,
    find: 'ended: lease.ended,',
    replace: 'ended: !lease.isLive(nowMs),',
    caughtBy: 'an expired lease counts as ended only once its end is durable',
  },
  {
    name: 'another instance of a node renews the lease of the previous instance',
    file: rules,
    find: '&& instance !== lease.instance',
    replace: '&& false',
    caughtBy: 'another instance of the node cannot renew',
  },
  {
    name: 'no instance can renew a lease that was granted without an instance',
    file: rules,
    find: 'instance !== undefined && lease.instance !== undefined &&',
    replace: 'instance !== undefined &&',
    caughtBy: 'any instance renews a lease that was granted without an instance',
  },
  {
    name: 'the instance of a node is not recorded',
    file: rules,
    find: '...(instance !== undefined && { instance }),',
    replace: '',
    caughtBy: 'a grant records the instance of its node',
  },
  {
    name: 'the name of a successor is ignored',
    file: rules,
    find: "if (mustWaitForSuccessor(group, claim.nodeId, now.monotonicMs)) return { answer: 'wait' }",
    replace: '',
    caughtBy: 'another node waits for a named successor',
  },
  {
    name: 'a group waits for its successor without end',
    file: successor,
    find: 'return nowMs < untilMs ? { nodeId, untilMs } : undefined',
    replace: 'return { nodeId, untilMs }',
    caughtBy: 'the wait for a named successor ends after 2 s',
  },
  {
    name: 'the wait for a successor counts from a forced resignation, and is over when the group is free',
    file: successor,
    find: 'Math.max(handedOverAtMs, hold?.untilMs ?? -Infinity)',
    replace: 'handedOverAtMs + 0 * (hold?.untilMs ?? 0)',
    caughtBy: 'the wait for a successor counts from the end of a hold',
  },
  {
    name: 'the successor leads before the former leader’s lease would have expired',
    file: rules,
    find: '|| group.freeInMs(now.monotonicMs) > 0)',
    replace: '|| (group.freeInMs(now.monotonicMs) > 0 && claim.nodeId !== lease?.successor))',
    caughtBy: 'the wait for a successor counts from the end of a hold',
  },
  {
    name: 'a group waits for a successor whose campaigns it refuses',
    file: successor,
    find: 'if (definition && !isAllowed(definition, nodeId)) return undefined',
    replace: 'void definition',
    caughtBy: 'no campaign waits for a successor that is not allowed in the group',
  },
  {
    name: 'a successor waits behind the campaigns before it',
    file: queue,
    find: 'leftTo(group, nowMs)?.nodeId === nodeId ? firstOfNode(group, nodeId) : firstInQueue(group)',
    replace: 'leftTo(group, nowMs) && false ? undefined : firstInQueue(group)',
    caughtBy: 'a named successor overtakes the queue only while the others wait',
  },
  {
    name: 'a successor overtakes the queue forever',
    file: queue,
    find: 'leftTo(group, nowMs)?.nodeId === nodeId',
    replace: '(leftTo(group, nowMs), group.lease?.successor === nodeId)',
    caughtBy: 'a named successor overtakes the queue only while the others wait',
  },
  {
    name: 'the end of a lease does not wake its successor',
    file: queue,
    find: 'if (successor !== undefined) firstOfNode(group, successor)?.wake()',
    replace: 'void successor',
    caughtBy: 'the end of a lease wakes the first campaign and the successor',
  },
  {
    name: 'equal positions have equal cursors',
    file: 'watch/feed.ts',
    find: 'return this.#seal.close(textOf(position))',
    replace: 'return (sealed[textOf(position)] ??= this.#seal.close(textOf(position)))',
    also: [
      {
        file: 'watch/feed.ts',
        find: "const noTexts = { metadata: '{}', checkpoint: '' }",
        replace: "const noTexts = { metadata: '{}', checkpoint: '' }\nconst sealed: Record<string, string> = {}",
      },
    ],
    caughtBy: 'two cursors for the same position differ',
  },
  {
    name: 'an open watch does not make its node live',
    file: members,
    find: 'this.note(groupId, nodeId, metadata, nowMs, { instance, liveUntilMs })',
    replace: 'this.note(groupId, nodeId, metadata, nowMs, { instance })',
    caughtBy: 'an open watch makes a standby live for a limited time',
  },
  {
    name: 'a standby that has gone stays live forever',
    file: members,
    find: '?? -Infinity) > known.monotonicMs',
    replace: '?? -Infinity) > 0',
    caughtBy: 'an open watch makes a standby live for a limited time',
  },
  {
    name: 'the leader counts as its own standby',
    file: members,
    find: 'if (nodeId === leaderId || waiting.has(nodeId)) continue',
    replace: 'if (waiting.has(nodeId)) continue',
    caughtBy: 'the leader does not count as its own standby',
  },
  {
    name: 'presence reports an open watch only once',
    file: presence,
    find: 'this.#timer = this.#open.size > 0 ? this.#later() : undefined',
    replace: 'this.#timer = undefined',
    caughtBy: 'presence reports an open watch until it is closed',
  },
  {
    name: 'presence reports a closed watch forever',
    file: presence,
    find: 'else nodes?.delete(nodeId)',
    replace: '',
    caughtBy: 'presence reports an open watch until it is closed',
  },
]
