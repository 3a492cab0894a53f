import type { Clock } from 'tenure'
import type { Group, Waiter } from './group.ts'

/** Waits in the campaign queue until it may be this campaign's turn, the deadline passes, or the caller disconnects. */
export async function waitInLine(
  group: Group,
  waiter: Waiter,
  { clock, deadlineMs, signal }: { readonly clock: Clock; readonly deadlineMs: number; readonly signal: AbortSignal },
): Promise<Waiter> {
  group.line ??= new Set()
  group.line.add(waiter)
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

export function leaveQueue(group: Group, place: Waiter): void {
  group.line?.delete(place)
  if (group.line?.size === 0) group.line = undefined
  wakeQueue(group)
}

/** Creates a waiter that is not in the queue yet. */
export function newWaiter(nodeId: string): Waiter {
  return { nodeId, wake: () => {} }
}

export function firstInQueue(group: Group): Waiter | undefined {
  return group.line?.values().next().value
}

export function wakeQueue(group: Group): void {
  firstInQueue(group)?.wake()
}
