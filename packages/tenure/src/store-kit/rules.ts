import { TenureError } from '../common/errors.ts'
import {
  absentVersion,
  type AcquireClaim,
  type ForgetClaim,
  type Granted,
  type HeldClaim,
  type LeaseRecord,
  type Outcome,
  type Refused,
} from '../engine/lease-store.ts'

/**
 * The state of one election at the moment of a call, read under the store's lock or as input to its compare-and-swap.
 *
 * @example
 * const neverWritten: Current = { record: undefined, highestTerm: 0, remainingMs: undefined }
 */
export interface Current {
  readonly record: LeaseRecord | undefined
  /** The highest term granted so far. It is never below the record's term. */
  readonly highestTerm: number
  /**
   * Time left on the newest lease by the store's own clock, even if its record was deleted. Zero or less if the lease
   * has expired or was released. Undefined if the store does not decide expiry.
   */
  readonly remainingMs: number | undefined
  /** The store has proof that the record's holder is gone, so all other candidates see the record as released. */
  readonly holderGone?: boolean | undefined
  /**
   * Duration of the newest lease, if the store keeps it outside the record: how long to wait after a record was
   * deleted.
   */
  readonly lastDurationMs?: number | undefined
}

/** A record that is about to be written. Each store adds a version. */
export type RecordDraft = Omit<LeaseRecord, 'version'>

/**
 * The action that a store must take: write the record and answer with a grant, or answer immediately without writing.
 */
export type Verdict = { readonly write: RecordDraft } | { readonly answer: Outcome }

/**
 * The rules of `LeaseStore.acquire`, for every store that reads a record, decides, and writes. The verdict is valid
 * only if no other write happens in between: the store must hold a lock from the read to the write, or the write must
 * be conditional. `wallMs` is recorded for display only.
 *
 * @example
 * const verdict = judgeAcquire({ record, highestTerm, remainingMs: undefined }, claim, wallMs)
 * if ('answer' in verdict) return verdict.answer
 * const version = await table.replace(claim.election, verdict.write, record?.version)
 * return granted({ ...verdict.write, version }, claim)
 */
export function judgeAcquire(found: Current, claim: AcquireClaim, wallMs: number): Verdict {
  // The caller is the record's own holder, which proves that the holder is not gone.
  const current = found.record?.attempt === claim.attempt ? found : { ...found, record: shown(found) }
  const { record } = current
  if (record?.attempt === claim.attempt) {
    // An attempt belongs to one term forever. A repeated call gets the same grant again, or a refusal.
    const same = record.holder === claim.holder && !record.released && !hasExpired(current)
    return { answer: same ? granted(record, claim) : refused(current) }
  }
  // The candidate has not seen the newest term, so this claim may have been delayed.
  if (current.highestTerm > claim.afterTerm) return { answer: refused(current) }
  if (!isFree(current, claim)) return { answer: refused(current) }
  return {
    write: {
      election: claim.election,
      holder: claim.holder,
      attempt: claim.attempt,
      term: nextTerm(claim),
      leaseDurationMs: claim.leaseDurationMs,
      acquiredAt: wallMs,
      renewedAt: wallMs,
      released: false,
      metadata: claim.metadata,
      checkpoint: record?.checkpoint ?? '',
      writeId: claim.writeId,
    },
  }
}

function isFree({ record, remainingMs }: Current, { afterTerm, expiredVersion }: AcquireClaim): boolean {
  if (record?.released) return true
  if (remainingMs !== undefined) return remainingMs <= 0
  // Deleting a record by hand does not end its lease.
  if ((record?.version ?? absentVersion) === expiredVersion) return true
  // The election was never written. Refuse a candidate that has seen a term, or has seen a version, because other
  // programs start at term 0.
  return record === undefined && afterTerm === 0 && expiredVersion === undefined
}

/**
 * The rules of `LeaseStore.renew`. A store that does not decide expiry accepts a late renewal if the record still has
 * the claimed version.
 *
 * @example
 * const verdict = judgeRenew({ record, highestTerm, remainingMs: undefined }, claim, wallMs)
 */
export function judgeRenew(current: Current, claim: HeldClaim, wallMs: number): Verdict {
  const record = matching(current, claim)
  if (!record || hasExpired(current)) return { answer: refused(current) }
  return {
    write: {
      ...record,
      leaseDurationMs: claim.leaseDurationMs,
      renewedAt: wallMs,
      checkpoint: claim.checkpoint ?? record.checkpoint,
      writeId: claim.writeId,
    },
  }
}

/**
 * The rules of `LeaseStore.release`.
 *
 * @example
 * const verdict = judgeRelease({ record, highestTerm, remainingMs: undefined }, claim)
 */
export function judgeRelease(current: Current, claim: HeldClaim): Verdict {
  const record = matching(current, claim)
  if (!record) return { answer: refused(current) }
  const released = { ...record, released: true, writeId: claim.writeId }
  return { write: claim.successor === undefined ? released : { ...released, successor: claim.successor } }
}

/**
 * The rules of `LeaseStore.forget`. Returns the refusal, or undefined if the record is to be removed. As with
 * `judgeAcquire`, the decision is valid only if no other write happens in between.
 *
 * @example
 * const refusal = judgeForget({ record, highestTerm, remainingMs: undefined }, claim)
 */
export function judgeForget(current: Current, { version }: ForgetClaim): Refused | undefined {
  const record = shown(current)
  if (record?.released && record.version === version) return undefined
  return refused({ ...current, record })
}

/** The error for a store that keeps the highest term only in the record, so that both are removed together. */
export function termInRecord(election: string): TenureError {
  const text = `This store keeps the highest term of "${election}" in the record, so forgetting the election also forgets its term. Set "withTerm" to confirm.`
  return new TenureError('INVALID_REQUEST', text)
}

/** The record as other candidates see it: marked as released if the store has proof that its holder is gone. */
export function shown({ record, holderGone }: Current): LeaseRecord | undefined {
  return record && holderGone && !record.released ? { ...record, released: true } : record
}

/** Time left on the lease, for display. */
export function remainingMsOf(current: Current): number | undefined {
  if (!current.record || shown(current)?.released) return 0
  return current.remainingMs === undefined ? undefined : Math.max(0, current.remainingMs)
}

/**
 * The answer to a call that was applied.
 *
 * @example
 * return granted({ ...verdict.write, version }, claim)
 */
export function granted(record: LeaseRecord, claim: { readonly leaseDurationMs: number }): Granted {
  return { ok: true, record, validForMs: Math.min(record.leaseDurationMs, claim.leaseDurationMs) }
}

/**
 * The answer to a call that was not applied.
 *
 * @example
 * return refused({ record: await table.read(claim.election), highestTerm, remainingMs: undefined })
 */
export function refused({ record, highestTerm, remainingMs, lastDurationMs }: Current): Refused {
  const known = remainingMs !== undefined && !record?.released
  return {
    ok: false,
    ...(record && { record }),
    highestTerm,
    ...(known && { retryAfterMs: Math.max(0, remainingMs) }),
    ...(!known && !record && lastDurationMs !== undefined && { retryAfterMs: lastDurationMs }),
  }
}

function hasExpired({ remainingMs }: Current): boolean {
  return remainingMs !== undefined && remainingMs <= 0
}

function matching({ record }: Current, claim: HeldClaim): LeaseRecord | undefined {
  const matches =
    record?.holder === claim.holder &&
    record.attempt === claim.attempt &&
    record.term === claim.term &&
    record.version === claim.version &&
    !record.released
  return matches ? record : undefined
}

function nextTerm(claim: AcquireClaim): number {
  // No term above `afterTerm` was granted, so this term is higher than all earlier ones.
  const term = claim.afterTerm + 1
  if (Number.isSafeInteger(term)) return term
  throw new TenureError('TERM_EXHAUSTED', `Election "${claim.election}" has used its last term, ${claim.afterTerm}.`)
}
