/** Decodes the service's answers as records. Anything not fully understood is a malformed response. */
import { FieldReader } from '@tenure/internal/field-reader'
import { isObject } from '@tenure/internal/objects'
import { MalformedResponse } from '../../clients/http/body.ts'
import type { HeldClaim, LeaseRecord, Metadata, Refused } from '../../engine/lease-store.ts'
import { optionalSuccessor } from '../../store-kit/record-fields.ts'

/** The service suggests this time to a campaign that another one overtook. */
const suggestedMs = 100

type Fields = Readonly<Record<string, unknown>>

/** The state of an election. */
export interface GroupStanding {
  readonly record: LeaseRecord | undefined
  readonly retryAfterMs: number | undefined
}

/** The leader, or the last one. `field` names the leader's field in the answer. */
export function groupStateOf(
  election: string,
  body: Fields,
  field: 'leader' | 'current_leader' = 'leader',
): GroupStanding {
  const leader = body[field]
  if (leader !== null) {
    const record = recordOf(election, leader, false)
    // Do not use the body's `retry_after_ms`, which is rounded up: `retryAfterMs` must not exceed the time left on the
    // lease.
    return { record, retryAfterMs: fieldsOf(leader as Fields).number('lease_remaining_ms', (ms) => ms >= 0) }
  }
  const { retry_after_ms: retry, previous_leader: previous } = body
  // The lease is free even if this claim did not get it. A short time to wait is then only a suggestion. A longer one
  // means that an administrator ended the lease by force, or that the service leaves it to a successor first.
  if (previous !== undefined) {
    const record = recordOf(election, previous, true)
    const isBlocked = typeof retry === 'number' && retry > suggestedMs
    return { record, retryAfterMs: isBlocked ? retry - 1 : undefined }
  }
  // There is no leader, but nothing may be granted yet: the group was deleted before its lease expired.
  if (retry !== undefined) {
    // Subtract 1, because the service rounds this value up.
    const waitMs = fieldsOf(body).number('retry_after_ms', (ms) => ms >= 0)
    return { record: undefined, retryAfterMs: Math.max(0, waitMs - 1) }
  }
  return { record: undefined, retryAfterMs: undefined }
}

/** Decodes a refusal. */
export function refusalOf(election: string, body: Fields, field?: 'current_leader'): Refused {
  const { record, retryAfterMs } = groupStateOf(election, body, field)
  const highestTerm = fieldsOf(body).term('highest_term', 0)
  return {
    ok: false,
    ...(record && { record }),
    highestTerm: Math.max(highestTerm, record?.term ?? 0),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  }
}

/** Decodes a record and checks that it belongs to the claimed grant. */
export function ownRecordOf(
  { election, holder, attempt, term }: Pick<HeldClaim, 'election' | 'holder' | 'attempt'> & { term?: number },
  leader: unknown,
  released: boolean,
): LeaseRecord {
  const record = recordOf(election, leader, released)
  const own = record.holder === holder && record.attempt === attempt && (term ?? record.term) === record.term
  if (!own) throw new MalformedResponse('it grants something other than what was requested')
  return record
}

/** `released` is also true for an expired lease: the service has decided that nobody holds it anymore. */
export function recordOf(election: string, leader: unknown, released: boolean): LeaseRecord {
  if (!isObject(leader)) throw new MalformedResponse('a leader is not an object')
  const fields = fieldsOf(leader)
  return {
    election,
    holder: fields.text('node_id'),
    attempt: fields.text('attempt'),
    term: fields.term('term'),
    leaseDurationMs: fields.leaseDurationMs('lease_ttl_ms'),
    acquiredAt: fields.timeMs('acquired_at_ms'),
    renewedAt: fields.timeMs('renewed_at_ms'),
    released,
    metadata: fields.object('metadata') as Metadata,
    checkpoint: fields.text('checkpoint'),
    version: fields.text('version'),
    writeId: fields.optionalText('write_id'),
    ...(released && optionalSuccessor(fields)),
  }
}

function fieldsOf(values: Fields): FieldReader {
  return new FieldReader(values, (what) => new MalformedResponse(what))
}
