import type { Clock } from 'tenure'

/** A pending call to the global store, until it is answered or nobody is waiting for it anymore. */
export interface PendingRequest {
  state: 'open' | 'running' | 'done'
  readonly seenAtMs: number
  /** The time after which nobody waits for the answer. */
  readonly endsAtMs: number
  /** How long a relay other than the primary one waits for the primary relay to answer. */
  readonly waitMs: number
  tries: number
  tryAtMs: number
  controller: AbortController | undefined
}

const longestWaitMs = 1_000
const firstPauseMs = 100
const longestPauseMs = 5_000
/** The longest time for one try. A candidate may be willing to wait for weeks, but a call that hangs must end. */
const longestTryMs = 10_000

/**
 * How long the other relays wait for the primary relay to answer. It is short enough that a leader keeps its lease if
 * the primary relay dies.
 */
export function standbyDelayMs(leaseDurationMs: number | undefined): number {
  return Math.min(longestWaitMs, (leaseDurationMs ?? Infinity) / 10)
}

/** Creates a pending call. */
export function newPendingCall(nowMs: number, lastsMs: number, leaseDurationMs: number | undefined): PendingRequest {
  return {
    state: 'open',
    seenAtMs: nowMs,
    endsAtMs: nowMs + lastsMs,
    waitMs: standbyDelayMs(leaseDurationMs),
    tries: 0,
    tryAtMs: nowMs,
    controller: undefined,
  }
}

/** Returns when the call is due, which depends on whether this relay is the primary one. */
export function dueMs({ seenAtMs, waitMs, tryAtMs }: PendingRequest, isFirst: boolean): number {
  return Math.max(tryAtMs, isFirst ? seenAtMs : seenAtMs + waitMs)
}

/** How long one try may take. The limit leaves time for another try, and frees the slot in the queue for others. */
export function tryTimeoutMs({ endsAtMs }: PendingRequest, nowMs: number): number {
  const leftMs = endsAtMs - nowMs
  return Math.max(1, Math.min(leftMs, Math.max(leftMs / 2, 500), longestTryMs))
}

/** Schedules the next try after a failure. The delay grows, but leaves time for another try for as long as possible. */
export function putOff(errand: PendingRequest, nowMs: number, clock: Clock): void {
  errand.state = 'open'
  errand.tries += 1
  errand.tryAtMs = nowMs + Math.min(pauseMs(errand.tries, clock), Math.max(0, errand.endsAtMs - nowMs) / 2)
}

/** The delay before the next try. It grows with each try and has jitter. */
export function pauseMs(tries: number, clock: Clock): number {
  return Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(tries - 1, 10)) * (0.5 + clock.random())
}

/** Ends a call, even if it is in flight. */
export function cancelCall(errand: PendingRequest): void {
  if (errand.state === 'running') {
    errand.controller?.abort(new DOMException('The caller no longer waits for this call.', 'AbortError'))
  }
  errand.state = 'done'
}
