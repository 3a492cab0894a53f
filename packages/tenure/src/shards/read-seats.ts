import type { LeaseRecord } from '../engine/lease-store.ts'
import { callWithin } from '@tenure/internal/bound'
import { isTenureError, TenureError } from '../common/errors.ts'
import { decodeOffer, isMember } from '../engine/members/member-record.ts'
import { seatName } from '../engine/members/seats.ts'
import { checkFound } from '../engine/store-calls.ts'
import { decodeReport } from './codec.ts'
import type { GroupMembership } from './options.ts'
import type { SeatRecord } from './seats.ts'

/** How many seats are read at the same time. A store may have few connections. */
const concurrentReads = 4

/** How to read seats. */
interface ReadBounds {
  /** The timeout of one read. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/** Reads the seats `from` up to but not including `to`. Rejects if one of the reads fails. */
export async function readSeats(
  membership: GroupMembership,
  { from, to }: { readonly from: number; readonly to: number },
  bounds: ReadBounds,
): Promise<(SeatRecord | undefined)[]> {
  const records: (SeatRecord | undefined)[] = Array.from({ length: to - from })
  const places = records.keys()
  // All readers take the next seat from the same list.
  const reader = async () => {
    for (const place of places) {
      const record = await readSeatRecord(membership, from + place, bounds)
      records[place] = record && seatRecordOf(record)
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrentReads, to - from) }, reader))
  return records
}

/**
 * Reads one seat. A record that is not readable counts as missing: its member cannot renew it, because the store compares
 * what it has read.
 */
export async function readSeatRecord(
  { store, group, clock }: GroupMembership,
  seat: number,
  { timeoutMs, signal: ended }: ReadBounds,
): Promise<LeaseRecord | undefined> {
  const election = seatName(group, seat)
  const text = `The store did not answer "read" for "${election}" within ${Math.ceil(timeoutMs)} ms.`
  const late = () => new TenureError('TIMEOUT', text, { retryable: true })
  try {
    return await callWithin(ended, { clock, timeoutMs, late }, async (signal) =>
      checkFound(await store.read(election, { signal, timeoutMs })),
    )
  } catch (error) {
    if (isTenureError(error) && error.code === 'RECORD_INVALID') return undefined
    throw error
  }
}

function seatRecordOf(record: LeaseRecord): SeatRecord {
  const { attempt, term, version, released, leaseDurationMs, checkpoint } = record
  const report = decodeReport(checkpoint)
  return { attempt, term, version, released, leaseDurationMs, report, isMember: isMember(decodeOffer(record)) }
}
