/**
 * The wait for a named successor, as pure functions. A resignation may name the node that should lead next. For a short
 * time the group is left to that node: its campaigns come first, and all others wait.
 *
 * This cannot break safety, because the name only delays campaigns. The rules decide about the successor's campaign as
 * about any other.
 *
 * It cannot leave a group without a leader either. The wait has an end that depends on nothing but this clock: it counts
 * from the resignation, from the end of a hold, or from the start of this process, whichever is last. Each of these
 * happens whether the successor exists or not.
 */
import { isAllowed, type Group } from './in-memory-group.ts'

/** The longest wait for a successor: the default retry interval of the library. A shorter lease makes it shorter. */
const longestWaitMs = 2_000

/** The node that a group without a leader is left to, and when that ends. */
interface LeftTo {
  readonly nodeId: string
  readonly untilMs: number
}

/** Returns the node that the group is left to at this time. Undefined if it is left to no particular node. */
export function leftTo({ lease, hold, definition }: Group, nowMs: number): LeftTo | undefined {
  if (!lease?.ended || lease.successor === undefined) return undefined
  const { successor: nodeId, handedOverAtMs, ttlMs } = lease
  // Nobody needs to wait for a node whose campaigns are refused.
  if (definition && !isAllowed(definition, nodeId)) return undefined
  const freeAtMs = Math.max(handedOverAtMs, hold?.untilMs ?? -Infinity)
  const untilMs = freeAtMs + Math.min(longestWaitMs, ttlMs)
  return nowMs < untilMs ? { nodeId, untilMs } : undefined
}

/** Returns whether a campaign of this node must wait for another node, which the last leader named. */
export function mustWaitForSuccessor(group: Group, nodeId: string, nowMs: number): boolean {
  const left = leftTo(group, nowMs)
  return left !== undefined && left.nodeId !== nodeId
}

/** Returns how long a campaign of this node cannot win, even though the group has no leader. */
export function freeForNodeInMs(group: Group, nodeId: string, nowMs: number): number {
  const heldMs = group.freeInMs(nowMs)
  if (heldMs > 0) return heldMs
  const left = leftTo(group, nowMs)
  return left && left.nodeId !== nodeId ? left.untilMs - nowMs : 0
}
