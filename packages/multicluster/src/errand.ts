import type { Clock } from 'tenure'

/** Something to be asked of the global store, until it is answered or nobody waits for it any more. */
export interface Errand {
  state: 'open' | 'running' | 'done'
  readonly seenAtMs: number
  /** Nobody waits for it after that. */
  readonly endsAtMs: number
  /** What a relay that does not answer first leaves to the other. */
  readonly waitMs: number
  tries: number
  tryAtMs: number
  controller: AbortController | undefined
}

const longestWaitMs = 1_000
const firstPauseMs = 100
const longestPauseMs = 5_000
/** A candidate may be willing to wait for weeks; a call that hangs must not. */
const longestTryMs = 10_000

/** How long a relay waits for the one that answers first: a leader must survive its death. */
export function waitOf(leaseDurationMs: number | undefined): number {
  return Math.min(longestWaitMs, (leaseDurationMs ?? Infinity) / 10)
}

/** Begins one. */
export function newErrand(nowMs: number, lastsMs: number, leaseDurationMs: number | undefined): Errand {
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

/** When it is due, for a relay that answers first or does not. */
export function dueMs({ seenAtMs, waitMs, tryAtMs }: Errand, isFirst: boolean): number {
  return Math.max(tryAtMs, isFirst ? seenAtMs : seenAtMs + waitMs)
}

/** How long one try may take: it leaves time for another, and its place to others. */
export function tryMs({ endsAtMs }: Errand, nowMs: number): number {
  const leftMs = endsAtMs - nowMs
  return Math.max(1, Math.min(leftMs, Math.max(leftMs / 2, 500), longestTryMs))
}

/** It failed: it is due again after a pause that grows, and leaves time for a try while there is any. */
export function putOff(errand: Errand, nowMs: number, clock: Clock): void {
  errand.state = 'open'
  errand.tries += 1
  errand.tryAtMs = nowMs + Math.min(pauseMs(errand.tries, clock), Math.max(0, errand.endsAtMs - nowMs) / 2)
}

/** A pause before the next try: longer each time, and not the same for all. */
export function pauseMs(tries: number, clock: Clock): number {
  return Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(tries - 1, 10)) * (0.5 + clock.random())
}

/** Ends it, whatever is under way. */
export function drop(errand: Errand): void {
  if (errand.state === 'running') {
    errand.controller?.abort(new DOMException('Nobody waits for this any more.', 'AbortError'))
  }
  errand.state = 'done'
}
