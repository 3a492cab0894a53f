import { resolveTimings, type Leadership, type LeadershipLostError } from 'tenure'
import { isVoluntaryEnd } from 'tenure/internal'
import { formatDuration } from '../shared/arguments/durations.ts'
import { usageError } from '../shared/arguments/errors.ts'
import { addMs, now } from '../shared/clock.ts'
import { withCommandErrors } from '../shared/failures.ts'
import type { Deadlines } from './protocol.ts'

const shortestMarginMs = 100

/** How the lease is divided for a command that must have ended before another machine may lead. */
export interface RunTimings {
  readonly leaseDurationMs: number
  readonly renewDeadlineMs: number
  /** The time from SIGTERM to SIGKILL after a loss. */
  readonly graceMs: number
  /**
   * The time from SIGKILL to the last moment at which this machine may rely on its lease. It allows for a busy machine,
   * and gives the kernel time to clean up the killed processes.
   */
  readonly marginMs: number
}

/** Divides the lease. Rejects a lease in which SIGKILL could come too late. */
export function divideLease(ttlMs: number, chosenGraceMs: number | undefined): RunTimings {
  const graceMs = chosenGraceMs ?? Math.floor(ttlMs / 5)
  const renewDeadlineMs = Math.floor((ttlMs * 2) / 3)
  const marginMs = Math.max(shortestMarginMs, Math.ceil(ttlMs / 20))
  if (graceMs > ttlMs / 5) {
    throw usageError([
      `--grace ${formatDuration(graceMs)} is more than a fifth of --ttl ${formatDuration(ttlMs)}: the command could ` +
        'outlive its lease while another machine leads. ' +
        `Choose --grace ${formatDuration(Math.floor(ttlMs / 5))} or less, or --ttl ${formatDuration(graceMs * 5)} or more.`,
    ])
  }
  const neededMs = renewDeadlineMs + graceMs + marginMs
  const beliefMs = Math.floor(
    withCommandErrors(() => resolveTimings({ leaseDurationMs: ttlMs, renewDeadlineMs })).beliefEndMs,
  )
  // The negation also rejects NaN.
  if (!(neededMs <= beliefMs)) {
    throw usageError([
      `--ttl ${formatDuration(ttlMs)} is too short: leadership ends after ${renewDeadlineMs}ms without an answer, ` +
        `SIGKILL follows ${graceMs}ms later and needs a margin of ${marginMs}ms. That is ${neededMs}ms, and this ` +
        `machine may rely on ${beliefMs}ms of the lease. Choose a longer --ttl, such as 1s, or a shorter --grace.`,
    ])
  }
  return { leaseDurationMs: ttlMs, renewDeadlineMs, graceMs, marginMs }
}

/** Whether this process ended its leadership itself. Then the lease is renewed until the command has ended. */
export function isVoluntary({ signal }: Leadership): boolean {
  if (!signal.aborted) return false
  const { reason } = signal.reason as LeadershipLostError
  return isVoluntaryEnd(reason)
}

/**
 * Computes the deadlines from the current lease. It reads the clocks first, so that any delay makes the deadlines
 * earlier.
 */
export function deadlinesOf(leadership: Leadership, { graceMs, marginMs }: RunTimings): Deadlines {
  const at = now()
  const lastMs = Math.max(0, leadership.drainMs() - marginMs)
  // A leader that stops on request keeps renewing, so `remainingMs` is not a deadline for it.
  const hasYielded = isVoluntary(leadership)
  const termMs = hasYielded ? lastMs : Math.min(leadership.remainingMs(), lastMs)
  const killMs = hasYielded ? lastMs : Math.min(termMs + graceMs, lastMs)
  return { termAt: addMs(at, termMs), killAt: addMs(at, killMs) }
}
