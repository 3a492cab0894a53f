import type { Clock } from 'tenure'

/** A pending call to the global store, until it is answered or nobody waits for it any longer. */
export interface PendingCall {
  state: 'open' | 'running' | 'done'
  readonly seenAtMs: number
  /** After this time nobody waits for the answer. */
  readonly endsAtMs: number
  /** How long a relay that does not answer first waits for the one that does. */
  readonly waitMs: number
  tries: number
  tryAtMs: number
  controller: AbortController | undefined
}

const longestWaitMs = 1_000
const firstPauseMs = 100
const longestPauseMs = 5_000
/** A candidate may be willing to wait for weeks, but a call that hangs must not take that long. */
const longestTryMs = 10_000

/**
 * How long a relay waits for the one that answers first. It is short enough that a leader survives the death of that
 * relay.
 */
export function waitOf(leaseDurationMs: number | undefined): number {
  return Math.min(longestWaitMs, (leaseDurationMs ?? Infinity) / 10)
}

/** Creates a pending call. */
export function newPendingCall(nowMs: number, lastsMs: number, leaseDurationMs: number | undefined): PendingCall {
  return {
    state: 'open',
    seenAtMs: nowMs,
    endsAtMs: nowMs + lastsMs,
    waitMs: waitOf(leaseDurationMs),
    tries: 0,
    tryAtMs: nowMs,
    controller: undefined,
  }
}

/** When the call is due, for a relay that answers first or not. */
export function dueMs({ seenAtMs, waitMs, tryAtMs }: PendingCall, isFirst: boolean): number {
  return Math.max(tryAtMs, isFirst ? seenAtMs : seenAtMs + waitMs)
}

/** How long one try may take. It leaves time for another try, and frees its place in the queue for others. */
export function tryMs({ endsAtMs }: PendingCall, nowMs: number): number {
  const leftMs = endsAtMs - nowMs
  return Math.max(1, Math.min(leftMs, Math.max(leftMs / 2, 500), longestTryMs))
}

/** Schedules the next try after a failure. The delay grows, and leaves time for another try as long as possible. */
export function putOff(errand: PendingCall, nowMs: number, clock: Clock): void {
  errand.state = 'open'
  errand.tries += 1
  errand.tryAtMs = nowMs + Math.min(pauseMs(errand.tries, clock), Math.max(0, errand.endsAtMs - nowMs) / 2)
}

/** The delay before the next try. It grows with each try and has jitter. */
export function pauseMs(tries: number, clock: Clock): number {
  return Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(tries - 1, 10)) * (0.5 + clock.random())
}

/** Ends a call, even if it is in flight. */
export function drop(errand: PendingCall): void {
  if (errand.state === 'running') {
    errand.controller?.abort(new DOMException('The caller no longer waits for this call.', 'AbortError'))
  }
  errand.state = 'done'
}
