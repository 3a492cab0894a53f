import { setMaxListeners } from 'node:events'
import type { Clock } from '../common/clock.ts'
import { TenureError } from '../common/errors.ts'
import { Bound } from '../clients/http/bound.ts'
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
  return withBound(clock, service, call, (bound) => {
    const ending = new AbortController()
    // A listing reads many objects at once, and some clients do not remove their listeners.
    setMaxListeners(0, ending.signal)
    bound.onEnd((reason) => ending.abort(reason))
    return bound.race(action(ending.signal))
  })
}

/** Like {@link bounded}, for an action that observes the bound itself. */
export async function withBound<T>(
  clock: Clock,
  service: string,
  { signal, timeoutMs }: CallOptions,
  action: (bound: Bound) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted()
  const startedMs = clock.monotonicMs()
  const leftMs = timeoutMs === undefined ? undefined : () => timeoutMs - (clock.monotonicMs() - startedMs)
  const bound = new Bound(signal, leftMs)
  const giveUpAfter = (ms: number) => clock.setTimer(ms, () => bound.end(lateAnswer(service, ms)))
  const timer = timeoutMs === undefined ? undefined : giveUpAfter(timeoutMs)
  try {
    return await action(bound)
  } finally {
    timer?.cancel()
    bound.forget()
  }
}

/** The error for an answer that did not arrive in time. */
export function lateAnswer(service: string, timeoutMs: number): TenureError {
  const text = `${service} did not answer within ${Math.round(timeoutMs)} ms.`
  return new TenureError('TIMEOUT', text, { retryable: true })
}
