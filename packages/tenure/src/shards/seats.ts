/** What a coordinator knows about the seats of its group, from linearizable reads. */
import type { LeaseRecord } from '../engine/lease-store.ts'
import type { MemberId, OwnershipReport } from './assignment.ts'
import type { Wait } from './coordinator.ts'

/** A record of a seat, as far as the coordinator uses it. */
export type SeatRecord = Pick<LeaseRecord, 'attempt' | 'term' | 'version' | 'released' | 'leaseDurationMs'> & {
  /** The report in the checkpoint, of any attempt. Undefined if there is none, or if it is unreadable. */
  readonly report: OwnershipReport | undefined
  /**
   * Whether its holder is a member. It is not if a coordinator holds the seat to prove that its member is over, or if an
   * administrator's request to hand over does.
   */
  readonly isMember: boolean
}

/** One read of the seats from the first on, each at some moment between `sentAtMs` and `nowMs`. */
export interface SeatRound {
  readonly sentAtMs: number
  readonly nowMs: number
  readonly records: readonly (SeatRecord | undefined)[]
}

/** What the last read of a seat showed. */
export interface SeatView extends SeatRecord {
  /** The arrival time of the first reply that showed this version. */
  readonly firstSeenAtMs: number
  /** The arrival time of the first reply that showed this attempt. */
  readonly presentSinceMs: number
}

/** Rule 3: observes each version from the moment it is first seen. A version that was seen before never starts again. */
export function observed(
  before: readonly (SeatView | undefined)[],
  { records, nowMs }: SeatRound,
): readonly (SeatView | undefined)[] {
  const length = Math.max(before.length, records.length)
  return Array.from({ length }, (_, seat) => {
    if (seat >= records.length) return before[seat]
    const [known, record] = [before[seat], records[seat]]
    if (!record) return undefined
    return {
      ...record,
      firstSeenAtMs: known?.version === record.version ? known.firstSeenAtMs : nowMs,
      presentSinceMs: known?.attempt === record.attempt ? known.presentSinceMs : nowMs,
    }
  })
}

/** Rule 2: a report whose attempt is not the record's attempt is not a report of the member on that seat. */
export function reportedBy(
  seats: readonly (SeatView | undefined)[],
  { seat, attempt }: MemberId,
): OwnershipReport | undefined {
  const view = seats[seat]
  return view?.attempt === attempt && view.report?.attempt === attempt ? view.report : undefined
}

/** Whether somebody holds the seat as a member. */
export function isHeld({ released, isMember }: SeatRecord): boolean {
  return !released && isMember
}

/**
 * Whether a member has reported `left`. That stays true no matter who holds its seat now: only the member itself writes
 * this report, and afterwards it never acts again. Without this, a process that is restarted and takes the same seat would
 * wait for one lease.
 */
export function hasLeft(seats: readonly (SeatView | undefined)[], { seat, attempt }: MemberId): boolean {
  const report = seats[seat]?.report
  return report?.attempt === attempt && report.left
}

/**
 * Rule 3 (S1): a record that shows another attempt, or no record, proves nothing yet: it may have been deleted while the
 * member believes. But from then on the member cannot renew, so its belief ends within one lease of the reply. One more
 * read after that must not show it either, and a read that shows the attempt again ends the wait.
 */
export function overAfterWait(
  { seat, attempt }: MemberId,
  waits: readonly Wait[],
  { records, sentAtMs, nowMs }: SeatRound,
  leaseDurationMs: number,
): { readonly wait: Wait | undefined; readonly isOver: boolean } {
  const wait = waits.find((one) => one.attempt === attempt)
  if (seat >= records.length) return { wait, isOver: false }
  if (records[seat]?.attempt === attempt) return { wait: undefined, isOver: false }
  if (!wait) return { wait: { attempt, sinceMs: nowMs }, isOver: false }
  return { wait, isOver: sentAtMs - wait.sinceMs >= leaseDurationMs }
}
