import type { LeaseRecord } from 'tenure'
import { now, setTimer, wallMs } from '../shared/clock.ts'
import { failureOf } from '../shared/failures.ts'
import { isService } from '../shared/store.ts'
import type { Patient, Timed } from './patient.ts'

/** Times of calls. */
export interface Latency {
  readonly calls: number
  readonly failed: number
  readonly medianMs: number
  readonly p99Ms: number
  readonly worstMs: number
}

/** How fast the store's clock runs, compared with ours; `uncertainty` is how far that may be off. */
export interface ClockRate {
  readonly rate: number
  readonly uncertainty: number
  /** How far its time of day is ahead of ours. Nothing depends on it. */
  readonly aheadMs: number
}

/** How soon a watch shows a change; or why it does not. */
export type Watching = { readonly medianMs: number } | { readonly why: string }

/** The same, where somebody else writes the changes. */
export type Overhearing = { readonly works: true } | { readonly why: string }

const longestMeasuringMs = 10_000
const fewestCalls = 5
const watchedChanges = 5
const longestWatchMs = 5_000
const longestOverhearingMs = 30_000
/** Less would be lost in the noise of the calls. */
const shortestClockMs = 2_000

/** Calls again and again, one after another. A call that fails is counted; too many of them end it. */
export async function measure(calls: number, call: () => Promise<Timed<unknown>>): Promise<Latency> {
  const times: number[] = []
  const startedAtMs = now().machineMs
  let failed = 0
  let last: unknown
  while (times.length + failed < calls) {
    const tried = times.length + failed
    if (tried >= fewestCalls && now().machineMs - startedAtMs > longestMeasuringMs) break
    if (failed >= fewestCalls && times.length === 0) throw last
    try {
      times.push((await call()).tookMs)
    } catch (error) {
      failed += 1
      last = error
    }
  }
  if (times.length === 0) throw last
  const sorted = times.toSorted((one, other) => one - other)
  const rank = (share: number) => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0
  return { calls: times.length + failed, failed, medianMs: rank(0.5), p99Ms: rank(0.99), worstMs: rank(1) }
}

/** A service writes its own time into each renewal; other stores keep ours. */
export async function clockRate(patient: Patient): Promise<ClockRate | undefined> {
  if (!isService(patient.store)) return undefined
  const look = async () => {
    const sentAtMs = now().machineMs
    const { answer } = await patient.renew()
    // It was written at some moment in between.
    const tookMs = now().machineMs - sentAtMs
    return { theirMs: answer.renewedAt, ourMs: sentAtMs + tookMs / 2, ourWallMs: wallMs() - tookMs / 2, tookMs }
  }
  const first = await look()
  for (let leftMs = shortestClockMs; leftMs > 0; leftMs = first.ourMs + shortestClockMs - now().machineMs) {
    await new Promise<void>((resolve) => void setTimer(Math.min(leftMs, patient.renewIntervalMs), resolve))
    await patient.keep()
  }
  const last = await look()
  const spanMs = last.ourMs - first.ourMs
  return {
    rate: (last.theirMs - first.theirMs) / spanMs,
    // Theirs come in whole milliseconds.
    uncertainty: (first.tookMs / 2 + last.tookMs / 2 + 2) / spanMs,
    aheadMs: last.theirMs - last.ourWallMs,
  }
}

/** Renews, and measures how long a watch takes to show it. Not by `observe`, which polls where a watch fails. */
export async function watching(patient: Patient): Promise<Watching> {
  const { store, election } = patient
  if (!store.watch) return { why: 'this store cannot be watched' }
  const end = new AbortController()
  const cancel = setTimer(longestWatchMs, () => end.abort())
  const times: number[] = []
  try {
    const records = store.watch(election, { signal: end.signal })[Symbol.asyncIterator]()
    const first = await records.next()
    while (!first.done && times.length < watchedChanges) {
      // The time of the answer is part of it: the leader learns of the renewal when others do.
      const sentAtMs = now().machineMs
      const [{ answer }] = await Promise.all([patient.renew(), seen(records, sentAtMs, times)])
      if (end.signal.aborted || answer.released) break
    }
  } catch (error) {
    if (times.length === 0 && !end.signal.aborted) return { why: failureOf(error).message }
  } finally {
    cancel()
    end.abort()
  }
  if (times.length === 0) return { why: `it showed nothing within ${longestWatchMs / 1_000} s` }
  return { medianMs: times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)] ?? 0 }
}

/** Whether a watch shows the leader's next renewal, which comes within its lease. How late it does is unknown. */
export async function overhearing({ store, election }: Patient, leader: LeaseRecord): Promise<Overhearing> {
  if (!store.watch) return { why: 'this store cannot be watched' }
  const end = new AbortController()
  const patienceMs = Math.min(leader.leaseDurationMs, longestOverhearingMs)
  const cancel = setTimer(patienceMs, () => end.abort())
  try {
    const records = store.watch(election, { signal: end.signal })[Symbol.asyncIterator]()
    // The first is the current state.
    for (let times = 0; times < 2; times++) {
      if ((await records.next()).done)
        return { why: `it showed no renewal within ${patienceMs / 1_000} s, if there was one` }
    }
    return { works: true }
  } catch (error) {
    return { why: failureOf(error).message }
  } finally {
    cancel()
    end.abort()
  }
}

async function seen(records: AsyncIterator<unknown>, sentAtMs: number, times: number[]): Promise<void> {
  const { done } = await records.next()
  if (!done) times.push(now().machineMs - sentAtMs)
}
