import { pause } from '@tenure/internal/pause'
import type { Clock } from '../clock.ts'
import type { ResourceChange, Resources, ResourceScope } from './resources.ts'

/** How {@link keepWatching} goes on. */
export interface KeepWatchingOptions {
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Learns why a watch ended; undefined if the server ended it. Another is opened after a pause. */
  readonly report?: ((error: unknown) => void) | undefined
}

const shortestPauseMs = 200
const longestPauseMs = 5_000

/**
 * Watches until the signal aborts, whatever becomes of single watches: each new one begins with everything. Pauses grow
 * from a fifth of a second to five, with some chance in them, and are short again after a watch that lasted.
 *
 * @example
 * for await (const change of keepWatching(resources, {}, { clock, signal })) handle(change)
 */
export async function* keepWatching(
  resources: Pick<Resources, 'watch'>,
  scope: ResourceScope,
  { clock, signal, report }: KeepWatchingOptions,
): AsyncGenerator<ResourceChange, void, undefined> {
  let pauseMs = shortestPauseMs
  while (!signal.aborted) {
    const openedMs = clock.monotonicMs()
    try {
      for await (const change of resources.watch(scope, { signal })) {
        if (signal.aborted) return
        yield change
      }
      if (!isEnded(signal)) report?.(undefined)
    } catch (error) {
      if (isEnded(signal)) return
      report?.(error)
    }
    if (clock.monotonicMs() - openedMs >= longestPauseMs) pauseMs = shortestPauseMs
    await pause(clock, pauseMs * (0.5 + clock.random() / 2), signal)
    pauseMs = Math.min(longestPauseMs, pauseMs * 2)
  }
}

/** Asked by a function, because it changes while something is awaited. */
function isEnded(signal: AbortSignal): boolean {
  return signal.aborted
}
