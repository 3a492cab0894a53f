import type { LeaseRecord } from 'tenure'
import { now, setTimer, wallMs } from '../../shared/clock.ts'
import { commandErrorOf } from '../../shared/failures.ts'
import { isService } from '../../shared/store.ts'
import type { ProbeElection, Timed } from './probe-election.ts'

/** Latency statistics of repeated calls. */
export interface Latency {
  readonly calls: number
  readonly failed: number
  readonly medianMs: number
  readonly p99Ms: number
  readonly worstMs: number
}

/** The rate of the store's clock relative to the local clock. `uncertainty` is how far `rate` may be off. */
export interface ClockRate {
  readonly rate: number
  readonly uncertainty: number
  /** How far the store's time of day is ahead of the local time. No verdict depends on it. */
  readonly aheadMs: number
}

/** How soon a watch shows a change, or why it does not. */
export type WatchLatency = { readonly medianMs: number } | { readonly why: string }

/** Whether a watch shows another leader's renewals, or why not. */
export type WatchCheck = { readonly works: true } | { readonly why: string }

const longestMeasuringMs = 10_000
const fewestCalls = 5
const watchedChanges = 5
const longestWatchMs = 5_000
const longestOverhearingMs = 30_000
/** The shortest span for comparing clocks. In less time, the latency of the calls would hide the difference. */
const shortestClockMs = 2_000

/** Makes `calls` calls, one after another. Failed calls are counted. Throws if all calls fail. */
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

/**
 * Measures the rate of the store's clock. Only a service writes its own time into a renewal. For other stores, this
 * returns undefined.
 */
export async function clockRate(probe: ProbeElection): Promise<ClockRate | undefined> {
  if (!isService(probe.store)) return undefined
  const look = async () => {
    const sentAtMs = now().machineMs
    const { answer } = await probe.renew()
    // The service wrote the record at some moment between sending and answer.
    const tookMs = now().machineMs - sentAtMs
    return { theirMs: answer.renewedAt, ourMs: sentAtMs + tookMs / 2, ourWallMs: wallMs() - tookMs / 2, tookMs }
  }
  const first = await look()
  for (let leftMs = shortestClockMs; leftMs > 0; leftMs = first.ourMs + shortestClockMs - now().machineMs) {
    await new Promise<void>((resolve) => void setTimer(Math.min(leftMs, probe.renewIntervalMs), resolve))
    await probe.renewIfDue()
  }
  const last = await look()
  const spanMs = last.ourMs - first.ourMs
  return {
    rate: (last.theirMs - first.theirMs) / spanMs,
    // The service reports whole milliseconds.
    uncertainty: (first.tookMs / 2 + last.tookMs / 2 + 2) / spanMs,
    aheadMs: last.theirMs - last.ourWallMs,
  }
}

/**
 * Renews the lease and measures how long a watch takes to show it. It does not use `observe`, which falls back to
 * polling when a watch fails.
 */
export async function measureWatch(probe: ProbeElection): Promise<WatchLatency> {
  const { store, election } = probe
  if (!store.watch) return { why: 'this store cannot be watched' }
  const end = new AbortController()
  const cancel = setTimer(longestWatchMs, () => end.abort())
  const times: number[] = []
  try {
    const records = store.watch(election, { signal: end.signal })[Symbol.asyncIterator]()
    const first = await records.next()
    while (!first.done && times.length < watchedChanges) {
      // Measure from sending, because the renewal may take effect before its answer arrives.
      const sentAtMs = now().machineMs
      const [{ answer }] = await Promise.all([probe.renew(), seen(records, sentAtMs, times)])
      if (end.signal.aborted || answer.released) break
    }
  } catch (error) {
    if (times.length === 0 && !end.signal.aborted) return { why: commandErrorOf(error).message }
  } finally {
    cancel()
    end.abort()
  }
  if (times.length === 0) return { why: `it showed nothing within ${longestWatchMs / 1_000} s` }
  return { medianMs: times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)] ?? 0 }
}

/**
 * Checks whether a watch shows the leader's next renewal, which must come within its lease. The delay cannot be
 * measured, because only the leader knows when it sent the renewal.
 */
export async function checkWatch({ store, election }: ProbeElection, leader: LeaseRecord): Promise<WatchCheck> {
  if (!store.watch) return { why: 'this store cannot be watched' }
  const end = new AbortController()
  const patienceMs = Math.min(leader.leaseDurationMs, longestOverhearingMs)
  const cancel = setTimer(patienceMs, () => end.abort())
  try {
    const records = store.watch(election, { signal: end.signal })[Symbol.asyncIterator]()
    // The first item is the current state, the second is a renewal.
    for (let times = 0; times < 2; times++) {
      if ((await records.next()).done)
        return { why: `it showed no renewal within ${patienceMs / 1_000} s, if there was one` }
    }
    return { works: true }
  } catch (error) {
    return { why: commandErrorOf(error).message }
  } finally {
    cancel()
    end.abort()
  }
}

async function seen(records: AsyncIterator<unknown>, sentAtMs: number, times: number[]): Promise<void> {
  const { done } = await records.next()
  if (!done) times.push(now().machineMs - sentAtMs)
}
