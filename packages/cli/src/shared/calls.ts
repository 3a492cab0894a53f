import { isTenureError, TenureError, type CallOptions } from 'tenure'
import { formatDuration } from './arguments/durations.ts'
import { setTimer } from './clock.ts'

const advice = 'It may be overloaded or far away. Try again, or set a longer --timeout.'

/**
 * Makes one call to a store. It waits at most `timeoutMs`, even if the store ignores its timeout, or until `ended`
 * aborts.
 */
export async function callWithTimeout<T>(
  timeoutMs: number,
  call: (options: CallOptions) => Promise<T>,
  ended?: AbortSignal,
): Promise<T> {
  const controller = new AbortController()
  const late = (text: string) => new TenureError('TIMEOUT', `${text} ${advice}`, { retryable: true })
  const end = () => controller.abort(ended?.reason)
  const cancel = setTimer(timeoutMs, () =>
    controller.abort(late(`The store has not answered within ${formatDuration(timeoutMs)}.`)),
  )
  ended?.addEventListener('abort', end, { once: true })
  try {
    return await call({ signal: controller.signal, timeoutMs })
  } catch (error) {
    // The store may have noticed the timeout first.
    const isOurs = controller.signal.aborted || !isTenureError(error) || error.code !== 'TIMEOUT'
    throw isOurs ? error : late(error.message)
  } finally {
    cancel()
    ended?.removeEventListener('abort', end)
  }
}
