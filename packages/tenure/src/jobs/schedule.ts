import type { Times } from './due-times.ts'

/** What to do about times at which no process could run the job: skip them, or run once for all of them. */
export type Missed = 'skip' | 'run-once'

/** A scheduled run. Its slot is the wall-clock time it is scheduled for. No machine ever runs a slot twice. */
export interface Slot {
  readonly slotMs: number
  /** The time until it starts. 0 if it is due. */
  readonly waitMs: number
  /** The newest slot that is skipped. Undefined if no slot is skipped. */
  readonly missedMs: number | undefined
}

/** A run that is at most this late was not missed, because a takeover may have delayed it. */
const shortestToleranceMs = 60_000

/** How late a run may start if a takeover lasts up to this many lease durations. */
export function toleranceMsOf(leaseDurationMs: number, leases = 2): number {
  return Math.max(shortestToleranceMs, leases * leaseDurationMs)
}

/** The times of a job, and which of them is due. `cronSchedule` creates one. */
export interface JobSchedule {
  readonly times: Times
  /** The time zone, for display. Undefined means UTC. */
  readonly timezone: string | undefined
  /** The next slot to run after the last one. Undefined if there will never be another. */
  next(lastMs: number, nowMs: number): Slot | undefined
}

/** Decides which time is due and which times were missed. */
export class Schedule implements JobSchedule {
  readonly times: Times
  readonly timezone: string | undefined
  readonly #missed: Missed
  readonly #toleranceMs: number
  #known: { readonly lastMs: number; readonly nowMs: number; readonly slot: Slot } | undefined

  /** A run that starts at most `toleranceMs` late was not missed. */
  constructor(
    times: Times,
    options: { readonly missed: Missed; readonly toleranceMs: number; readonly timezone?: string | undefined },
  ) {
    this.times = times
    this.timezone = options.timezone
    this.#missed = options.missed
    this.#toleranceMs = options.toleranceMs
  }

  next(lastMs: number, nowMs: number): Slot | undefined {
    const known = this.#known
    // Nothing becomes due before the next slot, so repeated calls are cheap.
    if (known?.lastMs === lastMs && nowMs >= known.nowMs && nowMs < known.slot.slotMs) {
      return { ...known.slot, waitMs: known.slot.slotMs - nowMs }
    }
    const slot = this.#find(lastMs, nowMs)
    this.#known = slot && slot.waitMs > 0 ? { lastMs, nowMs, slot } : undefined
    return slot
  }

  #find(lastMs: number, nowMs: number): Slot | undefined {
    const latestMs = this.times.latest(nowMs)
    const openMs = latestMs !== undefined && latestMs > lastMs ? latestMs : undefined
    if (openMs !== undefined && (this.#missed === 'run-once' || nowMs - openMs <= this.#toleranceMs)) {
      return { slotMs: openMs, waitMs: 0, missedMs: undefined }
    }
    // A slot at or before the last one is never run, no matter how far this clock is behind.
    const slotMs = this.times.after(Math.max(lastMs, nowMs))
    return slotMs === undefined ? undefined : { slotMs, waitMs: slotMs - nowMs, missedMs: openMs }
  }
}
