import type { Timings } from 'tenure'
import { formatDuration } from '../durations.ts'
import { shortTime } from '../output.ts'
import type { ClockRate, Latency, Watching } from './examination.ts'

/** What was found. */
export interface Findings {
  readonly renew: Latency
  /** How often the lease was lost. */
  readonly lost: number
  readonly clock: ClockRate | undefined
  readonly watching: Watching
  readonly timings: Timings
}

export interface Verdict {
  readonly verdict: 'safe' | 'tight' | 'unsafe'
  /** Why, and what to do: each a sentence or two. */
  readonly reasons: readonly string[]
}

/** How long the answer to a renewal may take before the engine sends it again. */
export function answerBoundMs({ renewDeadlineMs, renewIntervalMs }: Timings): number {
  return (renewDeadlineMs - renewIntervalMs) / 2
}

/** Whether leases of that length hold with a store that is so far away. */
export function judge({ renew, lost, clock, watching, timings }: Findings): Verdict {
  const unsafe: string[] = []
  const tight: string[] = []
  const boundMs = answerBoundMs(timings)
  const { leaseDurationMs, driftRatio } = timings
  const slow = `1 renewal in 100 takes ${shortTime(renew.p99Ms)}, and with a lease of ${formatDuration(leaseDurationMs)}`
  const longer = `Choose --ttl ${formatDuration(enoughMs(renew.p99Ms, timings))} or longer.`
  if (renew.p99Ms > boundMs) {
    unsafe.push(`${slow} it counts as failed after ${shortTime(boundMs)}: leaders would lose their leases. ${longer}`)
  } else if (renew.p99Ms > boundMs / 2) {
    tight.push(`${slow} it may take ${shortTime(boundMs)}: a slow moment costs a second try. ${longer}`)
  }
  if (renew.failed > 0) {
    const text = `${renew.failed} of ${renew.calls} renewals failed.`
    if (renew.failed * 10 > renew.calls) unsafe.push(`${text} Look for what fails before you rely on it.`)
    else tight.push(`${text} Leaders try again, but look for what fails.`)
  }
  if (lost > 0) {
    const often = lost === 1 ? 'once' : `${lost} times`
    unsafe.push(`Its lease ran out ${often} before a renewal arrived: leaders would have to stop their work.`)
  }
  if (clock && Math.abs(clock.rate - 1) - clock.uncertainty > driftRatio) {
    const percent = ((clock.rate - 1) * 100).toFixed(1)
    const allowed = `${driftRatio * 100} %`
    unsafe.push(`Its clock runs ${percent} % off ours, and leases allow ${allowed}: mend the clock that is wrong.`)
  }
  if ('why' in watching) tight.push(`Without a watch take-overs wait for the next poll: ${watching.why}.`)
  if (unsafe.length > 0) return { verdict: 'unsafe', reasons: [...unsafe, ...tight] }
  return { verdict: tight.length > 0 ? 'tight' : 'safe', reasons: tight }
}

const niceSeconds = [1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1_800, 3_600]

/** The shortest lease, in a round number, whose renewals may take twice as long as they did. */
function enoughMs(p99Ms: number, timings: Timings): number {
  const neededMs = (p99Ms * 2 * timings.leaseDurationMs) / answerBoundMs(timings)
  return (niceSeconds.find((seconds) => seconds * 1_000 >= neededMs) ?? Math.ceil(neededMs / 1_000)) * 1_000
}
