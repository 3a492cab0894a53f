import { callWithin } from '@tenure/internal/bound'
import { callSafely } from '@tenure/internal/call-safely'
import type { Clock, LeaseStore } from 'tenure'
import { TenureError } from 'tenure'
import type { Resources } from 'tenure/internal/multicluster'
import type { RelayObserver } from './observer.ts'
import type { Queue } from './call-queue.ts'

/** State and services that the relays of all resources share. */
export interface SharedRelay {
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

/** Runs work with a timeout. A request that the work has already sent may still be applied. */
export function withTimeout<T>(
  clock: Clock,
  timeoutMs: number,
  ended: AbortSignal,
  work: (call: { signal: AbortSignal; timeoutMs: number }) => Promise<T>,
): Promise<T> {
  const text = `No answer within ${Math.ceil(timeoutMs)} ms.`
  const late = () => new TenureError('TIMEOUT', text, { retryable: true })
  return callWithin(ended, { clock, timeoutMs, late }, (signal) => work({ signal, timeoutMs }))
}

/** Calls an observer. Its errors are dropped, because they must not cost a renewal. */
export function report(notify: () => void): void {
  callSafely(notify, () => undefined)
}
