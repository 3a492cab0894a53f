import { isTenureError, TenureError, type CallOptions } from 'tenure'
import { formatDuration } from './arguments/durations.ts'
import { setTimer } from './clock.ts'

const advice = 'It may be overloaded or far away: try again, or allow more with --timeout.'

/** Makes one call of a store. Waits no longer than was chosen, even if the store would; or until `ended`. */
export async function within<T>(
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
