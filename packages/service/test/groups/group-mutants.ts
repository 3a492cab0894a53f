import type { Mutation } from '../../../../test/mutants/mutant.ts'

/** A fault in the groups, and the check of group-checks.ts that must notice it. */
export interface GroupMutation extends Mutation {
  readonly caughtBy: string
}

const rules = 'groups/rules.ts'
const members = 'groups/members.ts'
const presence = 'watch/presence.ts'

/** Every one of them must be noticed. */
export const groupMutations: readonly GroupMutation[] = [
  {
    name: 'a leader that is no longer allowed goes on renewing',
    file: rules,
    find: "refusalOfNode(group, claim.nodeId, 'no longer allowed') ??",
    replace: '',
    caughtBy: 'a leader that is no longer allowed renews nothing',
  },
  {
    name: 'a leader that is no longer allowed loses its lease at once',
    file: rules,
    find: 'if (lease?.isLive(now.monotonicMs)) {',
    replace: 'if (lease?.isLive(now.monotonicMs) && !refusalOfNode(group, lease.nodeId)) {',
    caughtBy: 'nobody leads before the lease of a removed leader has ended',
  },
  {
    name: 'another start of a node renews the lease of the one before',
    file: rules,
    find: '&& instance !== lease.instance',
    replace: '&& false',
    caughtBy: 'another start of the node renews nothing',
  },
  {
    name: 'a lease that was granted without a start is renewed by none',
    file: rules,
    find: 'instance !== undefined && lease.instance !== undefined &&',
    replace: 'instance !== undefined &&',
    caughtBy: 'a grant without a start is renewed by any',
  },
  {
    name: 'the start of a node is not kept',
    file: rules,
    find: '...(instance !== undefined && { instance }),',
    replace: '',
    caughtBy: 'the start of a node outlives a restart',
  },
  {
    name: 'equal positions have equal cursors',
    file: 'watch/feed.ts',
    find: 'return this.#seal.close(textOf(position))',
    replace: 'return (sealed[textOf(position)] ??= this.#seal.close(textOf(position)))',
    also: [
      {
        file: 'watch/feed.ts',
        find: "const noTexts = { metadata: '{}', carry: '' }",
        replace: "const noTexts = { metadata: '{}', carry: '' }\nconst sealed: Record<string, string> = {}",
      },
    ],
    caughtBy: 'cursors of one position differ',
  },
  {
    name: 'an open watch says nothing of its node',
    file: members,
    find: 'this.note(groupId, nodeId, metadata, nowMs, { instance, liveUntilMs })',
    replace: 'this.note(groupId, nodeId, metadata, nowMs, { instance })',
    caughtBy: 'an open watch makes a standby live, and not for ever',
  },
  {
    name: 'a standby that has gone is live for ever',
    file: members,
    find: '?? -Infinity) > known.monotonicMs',
    replace: '?? -Infinity) > 0',
    caughtBy: 'an open watch makes a standby live, and not for ever',
  },
  {
    name: 'the leader counts as its own standby',
    file: members,
    find: 'if (nodeId === leaderId || waiting.has(nodeId)) continue',
    replace: 'if (waiting.has(nodeId)) continue',
    caughtBy: 'the leader is not its own standby',
  },
  {
    name: 'an open watch is told of once',
    file: presence,
    find: 'this.#timer = this.#open.size > 0 ? this.#later() : undefined',
    replace: 'this.#timer = undefined',
    caughtBy: 'an open watch is told of until it is closed',
  },
  {
    name: 'a watch that was closed is told of for ever',
    file: presence,
    find: 'else nodes?.delete(nodeId)',
    replace: '',
    caughtBy: 'an open watch is told of until it is closed',
  },
]
