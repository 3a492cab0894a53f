import type { Timings } from 'tenure'
import type { Finding } from 'tenure/stores'
import { formatDuration } from '../../shared/arguments/durations.ts'
import { formatShortDuration } from '../../shared/output.ts'
import type { ClockRate, Latency, WatchCheck, WatchLatency } from './measurements.ts'
import type { Race, RaceRounds } from './race.ts'

/** The measurements that a diagnosis is based on. */
export interface Measurements {
  readonly renew: Latency
  /** How many times the probe election lost its lease. */
  readonly lost: number
  readonly clock: ClockRate | undefined
  readonly watching: WatchLatency
  readonly timings: Timings
  readonly race: Race
  /** Problems with the server's settings. */
  readonly settings: readonly Finding[]
}

/** The verdict for leases of the chosen duration. */
export interface Diagnosis {
  readonly verdict: 'safe' | 'tight' | 'unsafe' | 'readable'
  /** The reasons, and what to do about them. Each is one or two sentences. */
  readonly reasons: readonly string[]
}

/** Judges whether leases of the chosen duration hold with a store this slow. */
export function diagnose({ renew, lost, clock, watching, timings, race, settings }: Measurements): Diagnosis {
  const about = (risk: Finding['risk']) => settings.filter((found) => found.risk === risk).map(({ text }) => text)
  const raced = 'why' in race ? [] : raceFindings(race.racers, race)
  const unsafe = [...raced.filter(({ risk }) => risk === 'unsafe').map(({ text }) => text), ...about('unsafe')]
  const tight = [...raced.filter(({ risk }) => risk === 'tight').map(({ text }) => text), ...about('tight')]
  const { leaseDurationMs, driftRatio, answerBoundMs: boundMs } = timings
  const slow = `1 renewal in 100 takes ${formatShortDuration(renew.p99Ms)}, and with a lease of ${formatDuration(leaseDurationMs)}`
  const longer = `Choose --ttl ${formatDuration(sufficientLeaseMs(renew.p99Ms, timings))} or longer.`
  if (renew.p99Ms > boundMs) {
    unsafe.push(
      `${slow} a renewal times out after ${formatShortDuration(boundMs)}: leaders would lose their leases. ${longer}`,
    )
  } else if (renew.p99Ms > boundMs / 2) {
    tight.push(`${slow} a renewal may take ${formatShortDuration(boundMs)}: a slow moment costs a retry. ${longer}`)
  }
  if (renew.failed > 0) {
    const text = `${renew.failed} of ${renew.calls} renewals failed.`
    if (renew.failed * 10 > renew.calls) unsafe.push(`${text} Find the cause before you rely on this store.`)
    else tight.push(`${text} Leaders retry, but find the cause.`)
  }
  if (lost > 0) {
    const often = lost === 1 ? 'once' : `${lost} times`
    unsafe.push(`The lease expired ${often} before a renewal arrived: leaders would have to stop their work.`)
  }
  if (clock && Math.abs(clock.rate - 1) - clock.uncertainty > driftRatio) {
    const percent = ((clock.rate - 1) * 100).toFixed(1)
    const allowed = `${driftRatio * 100} %`
    unsafe.push(
      `The store's clock rate is off by ${percent} %, and leases tolerate ${allowed}: fix the clock that is wrong.`,
    )
  }
  if ('why' in watching) tight.push(`Without a watch, takeovers wait for the next poll: ${watching.why}.`)
  if (unsafe.length > 0) return { verdict: 'unsafe', reasons: [...unsafe, ...tight] }
  return { verdict: tight.length > 0 ? 'tight' : 'safe', reasons: tight }
}

/** Finds rounds in which the store did not apply exactly one of several concurrent writes. */
function raceFindings(
  racers: number,
  { swaps, creates }: Record<'swaps' | 'creates', RaceRounds | undefined>,
): Finding[] {
  return Object.entries({ creates, swaps }).flatMap(([kind, raced]): Finding[] => {
    if (!raced) return []
    const { winners, withoutWinner } = raced
    const what = `${racers} concurrent ${kind} had`
    const harm = 'this server does not compare and swap atomically, so two processes could lead at the same time'
    const advice = 'Use another store.'
    if (winners > 1) return [{ risk: 'unsafe', text: `${what} ${winners} winners: ${harm}. ${advice}` }]
    if (withoutWinner === 0) return []
    return [{ risk: 'tight', text: `${what} no winner: candidates that try at the same time hinder each other.` }]
  })
}

/** Judges an election that another process leads, without writing anything. */
export function diagnoseReads(read: Latency, watching: WatchCheck, timings: Timings): Diagnosis {
  const reasons: string[] = []
  const boundMs = timings.answerBoundMs
  const isSlow = read.p99Ms > boundMs
  if (isSlow) {
    const lease = formatDuration(timings.leaseDurationMs)
    reasons.push(
      `1 read in 100 takes ${formatShortDuration(read.p99Ms)}, and with a lease of ${lease} a renewal times out after ${formatShortDuration(boundMs)}. Choose --ttl ${formatDuration(sufficientLeaseMs(read.p99Ms, timings))} or longer.`,
    )
  }
  if (read.failed > 0) reasons.push(`${read.failed} of ${read.calls} reads failed. Find the cause.`)
  if ('why' in watching) {
    reasons.push(
      `The watch does not work, or the leader is gone: ${watching.why}. Run "tenure watch" to see who leads.`,
    )
  }
  return { verdict: isSlow || read.failed * 10 > read.calls ? 'unsafe' : 'readable', reasons }
}

const niceSeconds = [1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1_800, 3_600]

/** The shortest round lease duration that leaves renewals twice the measured time. */
function sufficientLeaseMs(p99Ms: number, { leaseDurationMs, answerBoundMs }: Timings): number {
  const neededMs = (p99Ms * 2 * leaseDurationMs) / answerBoundMs
  return (niceSeconds.find((seconds) => seconds * 1_000 >= neededMs) ?? Math.ceil(neededMs / 1_000)) * 1_000
}
