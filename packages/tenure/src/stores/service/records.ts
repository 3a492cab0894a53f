/** Decodes the service's answers as records. Anything not fully understood is a malformed response. */
import { isObject } from '@tenure/internal/objects'
import { MalformedResponse } from '../../clients/http/body.ts'
import type { HeldClaim, LeaseRecord, Metadata, Refused } from '../../engine/lease-store.ts'

type Fields = Readonly<Record<string, unknown>>

/** The state of an election. */
export interface Standing {
  readonly record: LeaseRecord | undefined
  readonly retryAfterMs: number | undefined
}

/** The leader, or the last one. `field` names the leader's field in the answer. */
export function standingOf(election: string, body: Fields, field: 'leader' | 'current_leader' = 'leader'): Standing {
  const leader = body[field]
  if (leader !== null) {
    const record = recordOf(election, leader, false)
    // Not the body's own value, which is rounded up: a refusal must not promise more than what is left.
    return { record, retryAfterMs: number(leader as Fields, 'lease_remaining_ms', (ms) => ms >= 0) }
  }
  const { retry_after_ms: retry, previous_leader: previous } = body
  // The lease is free even if this claim did not get it. The time to wait is then only a suggestion.
  if (previous !== undefined) return { record: recordOf(election, previous, true), retryAfterMs: undefined }
  // There is no leader, but nothing may be granted yet: the group was deleted before its lease expired.
  if (retry !== undefined) {
    // This value is rounded up, too.
    const waitMs = number(body, 'retry_after_ms', (ms) => ms >= 0)
    return { record: undefined, retryAfterMs: Math.max(0, waitMs - 1) }
  }
  return { record: undefined, retryAfterMs: undefined }
}

/** Decodes a refusal. */
export function refusalOf(election: string, body: Fields, field?: 'current_leader'): Refused {
  const { record, retryAfterMs } = standingOf(election, body, field)
  const highestTerm = number(body, 'highest_term', (term) => Number.isSafeInteger(term) && term >= 0)
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
  if (!own) throw new MalformedResponse('it grants something else than was requested')
  return record
}

/** `released` is also true for an expired lease: the service has judged that nobody holds it anymore. */
export function recordOf(election: string, leader: unknown, released: boolean): LeaseRecord {
  if (!isObject(leader)) throw new MalformedResponse('a leader is not an object')
  const metadata = leader['metadata']
  if (!isObject(metadata)) throw new MalformedResponse('"metadata" is not an object')
  return {
    election,
    holder: text(leader, 'node_id'),
    attempt: text(leader, 'attempt'),
    term: number(leader, 'term', (term) => Number.isSafeInteger(term) && term > 0),
    leaseDurationMs: number(leader, 'lease_ttl_ms', (ms) => ms > 0 && ms < 2 ** 31),
    acquiredAt: number(leader, 'acquired_at_ms', Number.isFinite),
    renewedAt: number(leader, 'renewed_at_ms', Number.isFinite),
    released,
    metadata: metadata as Metadata,
    carry: text(leader, 'carry'),
    version: text(leader, 'version'),
    mark: leader['mark'] === undefined ? undefined : text(leader, 'mark'),
  }
}

function text(fields: Fields, name: string): string {
  const field = fields[name]
  if (typeof field !== 'string') throw new MalformedResponse(`"${name}" is not a string`)
  return field
}

function number(fields: Fields, name: string, valid: (field: number) => boolean): number {
  const field = fields[name]
  if (typeof field !== 'number' || !valid(field)) throw new MalformedResponse(`"${name}" is not a valid number`)
  return field
}
