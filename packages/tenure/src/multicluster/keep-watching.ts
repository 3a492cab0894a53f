import { pause } from '@tenure/internal/pause'
import type { Clock } from '../common/clock.ts'
import type { ResourceChange, Resources, ResourceScope, ResourceWatchOptions } from './resources.ts'

/** Options of {@link keepWatching}. */
export interface KeepWatchingOptions {
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Receives the reason why a watch ended. Undefined if the server ended it. Another watch is opened after a pause. */
  readonly report?: ((error: unknown) => void) | undefined
  /** See {@link ResourceWatchOptions.isKnown}. */
  readonly isKnown?: ResourceWatchOptions['isKnown']
}

const shortestPauseMs = 200
const longestPauseMs = 5_000

/**
 * Watches until the signal aborts, and reopens each watch that ends. Each new watch starts with the full state. The
 * pauses grow from 0.2 s to 5 s, with jitter, and are short again after a long watch.
 *
 * @example
 * for await (const change of keepWatching(resources, {}, { clock, signal })) handle(change)
 */
export async function* keepWatching(
  resources: Pick<Resources, 'watch'>,
  scope: ResourceScope,
  { clock, signal, report, isKnown }: KeepWatchingOptions,
): AsyncGenerator<ResourceChange, void, undefined> {
  let pauseMs = shortestPauseMs
  while (!signal.aborted) {
    const openedMs = clock.monotonicMs()
    try {
      for await (const change of resources.watch(scope, { signal, isKnown })) {
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

/** A function, because the value changes during an await and TypeScript would otherwise narrow it. */
function isEnded(signal: AbortSignal): boolean {
  return signal.aborted
}
