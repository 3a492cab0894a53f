import type { Times } from './times.ts'

/** What is done about times when nobody could run the job: they are left out, or one run makes up for all of them. */
export type Missed = 'skip' | 'run-once'

/** A scheduled run. Its slot, the wall-clock time it was meant for, is never run again by any machine. */
export interface Slot {
  readonly slotMs: number
  /** How long until it begins; 0 if it is due. */
  readonly waitMs: number
  /** The newest one that is left out, if there is one. */
  readonly missedMs: number | undefined
}

/** A run that begins this late was not missed: a take-over may have come in between. */
const shortestToleranceMs = 60_000

/** How late a run may begin where a take-over lasts up to so many leases. */
export function toleranceMsOf(leaseDurationMs: number, leases = 2): number {
  return Math.max(shortestToleranceMs, leases * leaseDurationMs)
}

/** The times of a job, and which of them is due. `cronSchedule` makes one. */
export interface JobSchedule {
  readonly times: Times
  /** For people, if it is not UTC. */
  readonly timezone: string | undefined
  /** What to run next, after the slot that was run last. Nothing if no time will ever come. */
  next(lastMs: number, nowMs: number): Slot | undefined
}

/** Which time is due, and which were missed. */
export class Schedule implements JobSchedule {
  readonly times: Times
  readonly timezone: string | undefined
  readonly #missed: Missed
  readonly #toleranceMs: number
  #known: { readonly lastMs: number; readonly nowMs: number; readonly slot: Slot } | undefined

  /** A run that begins at most `toleranceMs` late was not missed. */
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
    // Nothing becomes due before the next slot, so a clock that is asked again and again costs nothing.
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
    // A slot at or before the last one is never run, however far behind this clock may be.
    const slotMs = this.times.after(Math.max(lastMs, nowMs))
    return slotMs === undefined ? undefined : { slotMs, waitMs: slotMs - nowMs, missedMs: openMs }
  }
}
