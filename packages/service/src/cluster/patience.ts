import type { Clock } from 'tenure'
import type { Place } from './place.ts'

/** Resolves after a while, or when the signal aborts. */
export function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const over = () => {
      timer.cancel()
      signal.removeEventListener('abort', over)
      resolve()
    }
    const timer = clock.setTimer(ms, over, { background: true })
    signal.addEventListener('abort', over)
  })
}

/** Whether the same replica answers, in the same term. */
export function isSamePlace(one: Place, other: Place): boolean {
  if (one.kind === 'nowhere' || other.kind === 'nowhere') return one.kind === other.kind
  return one.kind === other.kind && one.term === other.term
}
