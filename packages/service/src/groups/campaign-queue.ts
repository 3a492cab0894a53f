import type { Clock } from 'tenure'
import type { Group, CampaignWaiter } from './in-memory-group.ts'
import { freeForNodeInMs, leftTo } from './successor.ts'

/**
 * Waits in the campaign queue until this campaign may have reached the front, the deadline passes, or the caller
 * disconnects.
 */
export async function waitInQueue(
  group: Group,
  waiter: CampaignWaiter,
  { clock, deadlineMs, signal }: { readonly clock: Clock; readonly deadlineMs: number; readonly signal: AbortSignal },
): Promise<CampaignWaiter> {
  group.campaignQueue ??= new Set()
  group.campaignQueue.add(waiter)
  const nowMs = clock.monotonicMs()
  const heldMs = freeForNodeInMs(group, waiter.nodeId, nowMs)
  const waitMs = Math.max(1, Math.min(deadlineMs - nowMs, heldMs > 0 ? heldMs : Infinity))
  await new Promise<void>((resolve) => {
    const timer = clock.setTimer(waitMs, done)
    signal.addEventListener('abort', done, { once: true })
    function done(): void {
      timer.cancel()
      signal.removeEventListener('abort', done)
      resolve()
    }
    waiter.wake = done
    if (signal.aborted) done()
  })
  return waiter
}

export function leaveQueue(group: Group, waiter: CampaignWaiter): void {
  group.campaignQueue?.delete(waiter)
  if (group.campaignQueue?.size === 0) group.campaignQueue = undefined
  firstInQueue(group)?.wake()
  if (waiter.nodeId === group.lease?.successor) firstOfNode(group, waiter.nodeId)?.wake()
}

/** Creates a waiter that is not in the queue yet. */
export function newWaiter(nodeId: string): CampaignWaiter {
  return { nodeId, wake: () => {} }
}

function firstInQueue(group: Group): CampaignWaiter | undefined {
  return group.campaignQueue?.values().next().value
}

function firstOfNode({ campaignQueue }: Group, nodeId: string): CampaignWaiter | undefined {
  for (const waiter of campaignQueue ?? []) if (waiter.nodeId === nodeId) return waiter
  return undefined
}

/**
 * Returns whether no other campaign comes before this one. `waiter` is undefined if the campaign is not in the queue.
 * While the group is left to a successor, the campaigns of that node come first.
 */
export function isFirstInQueue(
  group: Group,
  {
    nodeId,
    waiter,
    nowMs,
  }: { readonly nodeId: string; readonly waiter: CampaignWaiter | undefined; readonly nowMs: number },
): boolean {
  const first = leftTo(group, nowMs)?.nodeId === nodeId ? firstOfNode(group, nodeId) : firstInQueue(group)
  return first === undefined || first === waiter
}

/** Wakes the campaigns that may be granted now: the first one, and the first one of a named successor. */
export function wakeQueue(group: Group): void {
  firstInQueue(group)?.wake()
  const successor = group.lease?.successor
  if (successor !== undefined) firstOfNode(group, successor)?.wake()
}
