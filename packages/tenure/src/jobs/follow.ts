import { pause } from '@tenure/internal/pause'
import { systemClock, type Clock } from '../clock.ts'
import type { Leadership } from '../leadership.ts'
import { Book, type RunReport } from './book.ts'
import { contained, type JobHappening } from './events.ts'
import type { JobNote, JobRun } from './note.ts'
import type { JobSchedule } from './schedule.ts'

/** A time that is due. */
export interface DueRun {
  readonly run: JobRun
  /** When the next one is due, if there is one. */
  readonly nextMs: number | undefined
}

/** What followed a leadership's wait for its times. */
export interface FollowReport<Final> extends RunReport {
  /** Ends the whole of it. */
  readonly final?: Final | undefined
}

/** A job with times. */
export interface FollowedJob<Final> {
  readonly schedule: JobSchedule
  /** Default: the real one. */
  readonly clock?: Clock | undefined
  /** Does the work of one time. Nothing, if it was too late to begin. */
  perform(due: DueRun): Promise<FollowReport<Final> | undefined>
  /** Hears of what happens. What it throws or rejects with is dropped. */
  tell(happening: JobHappening): void
  /** Whether to end instead of waiting for the next time. `hasRun`: at least one time was run. */
  leaves?(nextMs: number | undefined, hasRun: boolean): boolean
}

/** Why it ended: what the work said, or the next time if it was not to wait for it. Neither if leadership ended. */
export interface Followed<Final> {
  readonly final?: Final | undefined
  readonly nextMs?: number | undefined
  readonly hasLeft: boolean
}

/** The wall clock may be set at any moment, so no sleep that follows it is long. */
const longestSleepMs = 10_000

/**
 * Runs the times of a job for as long as a leadership lasts, each at most once in the whole fleet: its time is noted in
 * the record before it begins, and no time at or before the noted one is ever run. For programs that campaign by
 * themselves, as the command `tenure run` does; `createJobs` is the simpler way.
 *
 * @example
 * const leadership = await elector.waitForLeadership()
 * leadership.waitUntil(
 *   followSchedule(leadership, {
 *     schedule: cronSchedule('0 3 * * *'),
 *     perform: async ({ run }) => ({ result: (await report(run.scheduledAt)) ? 'succeeded' : 'failed' }),
 *     tell: (happening) => console.log(happening.type),
 *   }),
 * )
 */
export async function followSchedule<Final>(leadership: Leadership, job: FollowedJob<Final>): Promise<Followed<Final>> {
  const { schedule, clock = systemClock } = job
  const tell = contained((happening) => job.tell(happening))
  const book = new Book(leadership, clock, tell)
  let lastMs = await baseline(book, schedule, clock)
  let announcedMs: number | undefined
  let hasRun = false
  while (leadership.isLeader()) {
    const slot = schedule.next(lastMs, clock.wallMs())
    if (slot && slot.waitMs <= 0) {
      const final = await runSlot(slot.slotMs, book, job)
      if (final !== undefined) return { final, hasLeft: false }
      lastMs = slot.slotMs
      hasRun = true
      continue
    }
    if (slot?.missedMs !== undefined) {
      await book.leaveOut(slot.missedMs)
      // Writing that took its time, and it need not be looked for again.
      lastMs = slot.missedMs
      continue
    }
    if (job.leaves?.(slot?.slotMs, hasRun)) return { nextMs: slot?.slotMs, hasLeft: true }
    if (slot && slot.slotMs !== announcedMs) tell({ type: 'scheduled', scheduledAt: new Date(slot.slotMs) })
    announcedMs = slot?.slotMs
    await pause(clock, Math.min(slot?.waitMs ?? longestSleepMs, longestSleepMs), leadership.signal)
  }
  return { hasLeft: false }
}

/** The first leader of all begins with the next slot, and notes that for its successors. */
async function baseline(book: Book, schedule: JobSchedule, clock: Clock): Promise<number> {
  const { lastRunMs } = book.note
  if (lastRunMs !== undefined) return lastRunMs
  const beginMs = schedule.times.latest(clock.wallMs()) ?? 0
  await book.write(headOf(beginMs, schedule))
  return beginMs
}

function headOf(slotMs: number, { times, timezone }: JobSchedule): Partial<JobNote> {
  return { lastRunMs: slotMs, nextRunMs: times.after(slotMs), schedule: times.text, timezone }
}

async function runSlot<Final>(slotMs: number, book: Book, job: FollowedJob<Final>): Promise<Final | undefined> {
  const head = headOf(slotMs, job.schedule)
  const nextMs = head.nextRunMs
  const done = await book.run({
    scheduledMs: slotMs,
    head,
    async perform(run) {
      const forget = tellOfNext(nextMs, run, job)
      try {
        return await job.perform({ run, nextMs })
      } finally {
        forget()
      }
    },
  })
  return done?.report.final
}

/** A run that outlasts the next time is reported once. */
function tellOfNext<Final>(nextMs: number | undefined, run: JobRun, job: FollowedJob<Final>): () => void {
  if (nextMs === undefined) return () => undefined
  const { clock = systemClock } = job
  const tell = contained((happening) => job.tell(happening))
  const look = () => {
    const waitMs = nextMs - clock.wallMs()
    if (waitMs > 0) timer = clock.setTimer(Math.min(waitMs, longestSleepMs), look, { background: true })
    else tell({ type: 'still-running', run, scheduledAt: new Date(nextMs) })
  }
  let timer = clock.setTimer(0, look, { background: true })
  return () => timer.cancel()
}
