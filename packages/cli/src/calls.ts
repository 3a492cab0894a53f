import { TenureError, type CallOptions } from 'tenure'
import { setTimer } from './clock.ts'
import { formatDuration } from './durations.ts'

/** Makes one call of a store, and waits no longer than was chosen, also where the store would. */
export async function within<T>(timeoutMs: number, call: (options: CallOptions) => Promise<T>): Promise<T> {
  const controller = new AbortController()
  const text = `The store has not answered within ${formatDuration(timeoutMs)}.`
  const cancel = setTimer(timeoutMs, () => controller.abort(new TenureError('TIMEOUT', text, { retryable: true })))
  try {
    return await call({ signal: controller.signal, timeoutMs })
  } finally {
    cancel()
  }
}
