import { callSafely } from '@tenure/internal/call-safely'
import type { Clock, LeaseStore } from 'tenure'
import { TenureError } from 'tenure'
import type { Resources } from 'tenure/stores/multicluster'
import type { RelayObserver } from './observer.ts'
import type { Queue } from './queue.ts'

/** What the relays of all resources share. */
export interface Shared {
  readonly resources: Resources
  readonly store: LeaseStore
  readonly cluster: string
  readonly clock: Clock
  readonly isFirst: () => boolean
  readonly observer: RelayObserver
  /** Calls to the global store. */
  readonly calls: Queue
  /** Status writes. */
  readonly writes: Queue
  readonly backend: { noteAnswer(): void; noteFailure(error: unknown): void }
}

/** Runs work with a timeout. What it has already sent may still be applied. */
export async function withTimeout<T>(
  clock: Clock,
  timeoutMs: number,
  controller: AbortController,
  work: (call: { signal: AbortSignal; timeoutMs: number }) => Promise<T>,
): Promise<T> {
  const { signal } = controller
  signal.throwIfAborted()
  const late = () =>
    controller.abort(new TenureError('TIMEOUT', `No answer within ${Math.ceil(timeoutMs)} ms.`, { retryable: true }))
  const timer = clock.setTimer(timeoutMs, late)
  let onAbort: (() => void) | undefined
  try {
    const aborted = new Promise<never>((_, reject) => {
      onAbort = () => reject(signal.reason)
      signal.addEventListener('abort', onAbort, { once: true })
    })
    return await Promise.race([work({ signal, timeoutMs }), aborted])
  } finally {
    timer.cancel()
    if (onAbort) signal.removeEventListener('abort', onAbort)
  }
}

/** Calls an observer. Its errors are dropped, because they must not cost a renewal. */
export function report(notify: () => void): void {
  callSafely(notify, () => undefined)
}
