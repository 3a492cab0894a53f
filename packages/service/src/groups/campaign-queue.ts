import type { Clock } from 'tenure'
import type { Group, CampaignWaiter } from './in-memory-group.ts'

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
  const heldMs = group.freeInMs(nowMs)
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
  wakeQueue(group)
}

/** Creates a waiter that is not in the queue yet. */
export function newWaiter(nodeId: string): CampaignWaiter {
  return { nodeId, wake: () => {} }
}

export function firstInQueue(group: Group): CampaignWaiter | undefined {
  return group.campaignQueue?.values().next().value
}

export function wakeQueue(group: Group): void {
  firstInQueue(group)?.wake()
}
