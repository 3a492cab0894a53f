import { callWithin } from '@tenure/internal/bound'
import { systemClock } from '@tenure/internal/clock'
import type { CallOptions } from 'tenure'
import { isTenureError, TenureError } from 'tenure/internal/options'
import { formatDuration } from './arguments/durations.ts'

const advice = 'It may be overloaded or far away. Try again, or set a longer --timeout.'

/**
 * Makes one call to a store. Waits until `ended` aborts, and at most `timeoutMs`, even if the store ignores its
 * timeout.
 */
export async function callWithTimeout<T>(
  timeoutMs: number,
  call: (options: CallOptions) => Promise<T>,
  ended?: AbortSignal,
): Promise<T> {
  const late = (text: string) => new TenureError('TIMEOUT', `${text} ${advice}`, { retryable: true })
  const unanswered = late(`The store has not answered within ${formatDuration(timeoutMs)}.`)
  try {
    const deadline = { clock: systemClock, timeoutMs, late: () => unanswered }
    return await callWithin(ended, deadline, (signal) => call({ signal, timeoutMs }))
  } catch (error) {
    // The store may have noticed the timeout first.
    const isTheirs = error !== unanswered && isTenureError(error) && error.code === 'TIMEOUT'
    throw isTheirs ? late(error.message) : error
  }
}
