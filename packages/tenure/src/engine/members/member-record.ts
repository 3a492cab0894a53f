import { isName } from '@tenure/internal/names'
import { isObject } from '@tenure/internal/objects'
import type { LeaseRecord, Metadata } from '../lease-store.ts'

/**
 * How a member is written into the record of its seat. The holder is the member's identity. The metadata is what the
 * member offers and does not change: `{ "generation": 42, "maxMembers": 32, "metadata": { … } }`. The checkpoint is what
 * the member reports: `{ "attempt": "…", "eligible": true }`. A checkpoint outlives its writer, so a report counts only
 * with the attempt of the record.
 *
 * An administrator's request takes a seat too: `{ "maxMembers": 32, "metadata": {}, "handOverTo": "node-3", "ofTerm": 7
 * }`. Its holder is not a member. Nor is a coordinator of shards that holds a seat to prove that the seat's member has
 * ended: `{ "maxMembers": 32, "metadata": {}, "cleaning": true }`.
 */

/** What a member offers while it holds its seat. */
export interface MemberOffer {
  /** The number of the rollout. Undefined if the member has none. */
  readonly generation: number | undefined
  /** How many seats its group has, so that readers know which seats to read. */
  readonly maxMembers: number
  /** The user's own metadata. */
  readonly metadata: Metadata
  /** The candidate that should lead, if the holder of the seat is a request and not a member. */
  readonly handOverTo?: string | undefined
  /** The term that a request asks to end. Undefined for a member. */
  readonly ofTerm?: number | undefined
  /** Whether a coordinator of shards holds the seat to prove that the seat's member has ended. */
  readonly cleaning?: boolean | undefined
}

/** Whether the holder of a seat is a member. */
export function isMember({ handOverTo, cleaning = false }: MemberOffer): boolean {
  return handOverTo === undefined && !cleaning
}

/** What a member reports. It may change while the member holds its seat. */
export interface SeatReport {
  /** Whether the member could lead. */
  readonly eligible: boolean
}

/** The report assumed for a member that has not written one. */
export const initialReport: SeatReport = { eligible: true }

/** The metadata of a seat's record. */
export function encodeOffer({
  generation,
  maxMembers,
  metadata,
  handOverTo,
  ofTerm,
  cleaning = false,
}: MemberOffer): Metadata {
  return {
    ...(generation !== undefined && { generation }),
    maxMembers,
    metadata,
    ...(handOverTo !== undefined && { handOverTo }),
    ...(ofTerm !== undefined && { ofTerm }),
    ...(cleaning && { cleaning }),
  }
}

/** Returns what a record offers. A part that was not written by this library counts as missing. */
export function decodeOffer({ metadata: written }: Pick<LeaseRecord, 'metadata'>): MemberOffer {
  const { generation, maxMembers, metadata, handOverTo, ofTerm, cleaning } = isObject(written) ? written : {}
  return {
    generation: isSafeInteger(generation) ? generation : undefined,
    maxMembers: isSafeInteger(maxMembers) ? maxMembers : 0,
    metadata: isObject(metadata) ? metadata : {},
    handOverTo: isName(handOverTo) ? handOverTo : undefined,
    ofTerm: isSafeInteger(ofTerm) ? ofTerm : undefined,
    cleaning: cleaning === true,
  }
}

/** The checkpoint of a seat's record. */
export function encodeReport(attempt: string, { eligible }: SeatReport): string {
  return JSON.stringify({ attempt, eligible })
}

/** Returns what the holder of a record reports. A report from an earlier member of the same seat does not count. */
export function decodeReport({ attempt, checkpoint }: Pick<LeaseRecord, 'attempt' | 'checkpoint'>): SeatReport {
  let report: unknown
  try {
    report = JSON.parse(checkpoint)
  } catch {
    // The seat has no report yet.
  }
  if (!isObject(report) || Reflect.get(report, 'attempt') !== attempt) return initialReport
  const eligible: unknown = Reflect.get(report, 'eligible')
  return { eligible: typeof eligible === 'boolean' ? eligible : initialReport.eligible }
}

function isSafeInteger(value: unknown): value is number {
  return Number.isSafeInteger(value)
}
