import { setMaxListeners } from 'node:events'
import { callWithin, withBound as withDeadline, type Bound, type Deadline } from '@tenure/internal/bound'
import type { Clock } from '../common/clock.ts'
import { TenureError } from '../common/errors.ts'
import type { CallOptions } from '../engine/lease-store.ts'

/**
 * Runs a call within its own deadline, even if the client ignores the timeout. `service` names the server in errors.
 * The signal that `action` gets cancels its requests, if the client supports that.
 */
export function bounded<T>(
  clock: Clock,
  service: string,
  call: CallOptions,
  action: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return callWithin(call.signal, deadlineOf(clock, service, call), (signal) => {
    // A listing reads many objects at once, and some clients do not remove their listeners.
    setMaxListeners(0, signal)
    return action(signal)
  })
}

/** Runs a call within its own deadline. Unlike {@link bounded}, it relies on `action` to end when `bound` does. */
export function withBound<T>(
  clock: Clock,
  service: string,
  call: CallOptions,
  action: (bound: Bound) => Promise<T>,
): Promise<T> {
  return withDeadline(call.signal, deadlineOf(clock, service, call), action)
}

function deadlineOf(clock: Clock, service: string, { timeoutMs }: CallOptions): Deadline | undefined {
  return timeoutMs === undefined ? undefined : { clock, timeoutMs, late: (ms) => lateAnswer(service, ms) }
}

/** The error for an answer that did not arrive in time. */
function lateAnswer(service: string, timeoutMs: number): TenureError {
  const text = `${service} did not answer within ${Math.round(timeoutMs)} ms.`
  return new TenureError('TIMEOUT', text, { retryable: true })
}
