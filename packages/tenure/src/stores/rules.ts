import { TenureError } from '../errors.ts'
import {
  absentVersion,
  type AcquireClaim,
  type ForgetClaim,
  type Granted,
  type HeldClaim,
  type LeaseRecord,
  type Outcome,
  type Refused,
} from '../lease-store.ts'

/**
 * What a store holds for one election at the moment of a call, read under its lock or for its compare-and-swap.
 *
 * @example
 * const neverWritten: Current = { record: undefined, highestTerm: 0, remainingMs: undefined }
 */
export interface Current {
  readonly record: LeaseRecord | undefined
  /** At least the record's term. */
  readonly highestTerm: number
  /**
   * What is left of the newest lease on the store's own clock, also when its record was deleted; zero or less if it
   * ran out or was released; undefined if the store cannot judge that.
   */
  readonly remainingMs: number | undefined
  /** The store has proof that the record's holder is gone: to everybody else the record is released. */
  readonly holderGone?: boolean | undefined
  /** The newest lease's duration where the store keeps it apart: how long to wait for a record that was deleted. */
  readonly lastDurationMs?: number | undefined
}

/** A record that is about to be written. Each store gives it a version. */
export type Draft = Omit<LeaseRecord, 'version'>

/** What a store has to do: write, then answer with a grant; or answer at once. */
export type Verdict = { readonly write: Draft } | { readonly answer: Outcome }

/**
 * The rules of `LeaseStore.acquire`, for every store that reads a record, decides and writes. What it decides holds only
 * while nobody else writes: between the reading and the writing there must be a lock, or the write must compare.
 * `wallMs` is shown to people.
 *
 * @example
 * const verdict = judgeAcquire({ record, highestTerm, remainingMs: undefined }, claim, wallMs)
 * if ('answer' in verdict) return verdict.answer
 * const version = await table.replace(claim.election, verdict.write, record?.version)
 * return granted({ ...verdict.write, version }, claim)
 */
export function judgeAcquire(found: Current, claim: AcquireClaim, wallMs: number): Verdict {
  // Its own holder asks, so it is not gone.
  const current = found.record?.attempt === claim.attempt ? found : { ...found, record: shown(found) }
  const { record } = current
  if (record?.attempt === claim.attempt) {
    // One attempt belongs to one term for ever: a repeated call gets its grant again, or nothing.
    const same = record.holder === claim.holder && !record.released && !hasExpired(current)
    return { answer: same ? granted(record, claim) : refused(current) }
  }
  // Someone led whom the candidate has not seen: this claim may be a late one.
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
      carry: record?.carry ?? '',
      mark: claim.mark,
    },
  }
}

function isFree({ record, remainingMs }: Current, { afterTerm, expiredVersion }: AcquireClaim): boolean {
  if (record?.released) return true
  if (remainingMs !== undefined) return remainingMs <= 0
  // A record that was deleted by hand does not end the lease it told of.
  if ((record?.version ?? absentVersion) === expiredVersion) return true
  // Never written: not to whoever has seen a term or, where other programs begin at term 0, a version.
  return record === undefined && afterTerm === 0 && expiredVersion === undefined
}

/**
 * The rules of `LeaseStore.renew`. A store that cannot judge expiry accepts a late renewal of a version nobody took.
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
      carry: claim.carry ?? record.carry,
      mark: claim.mark,
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
  return record ? { write: { ...record, released: true, mark: claim.mark } } : { answer: refused(current) }
}

/**
 * The rules of `LeaseStore.forget`: the refusal, or undefined if the record is to be removed. What it decides holds only
 * while nobody else writes, as for `judgeAcquire`.
 *
 * @example
 * const refusal = judgeForget({ record, highestTerm, remainingMs: undefined }, claim)
 */
export function judgeForget(current: Current, { version }: ForgetClaim): Refused | undefined {
  const record = shown(current)
  if (record?.released && record.version === version) return undefined
  return refused({ ...current, record })
}

/** For a store whose highest term goes with the record. */
export function termInRecord(election: string): TenureError {
  const text = `This store keeps the highest term of "${election}" in the record, so it can be forgotten only with its term ("withTerm").`
  return new TenureError('INVALID_REQUEST', text)
}

/** The record as others are to see it: released also where the store has proof that its holder is gone. */
export function shown({ record, holderGone }: Current): LeaseRecord | undefined {
  return record && holderGone && !record.released ? { ...record, released: true } : record
}

/** What is left of the lease, for people. */
export function leftOf(current: Current): number | undefined {
  if (!current.record || shown(current)?.released) return 0
  return current.remainingMs === undefined ? undefined : Math.max(0, current.remainingMs)
}

/**
 * The answer to a call that was carried out.
 *
 * @example
 * return granted({ ...verdict.write, version }, claim)
 */
export function granted(record: LeaseRecord, claim: { readonly leaseDurationMs: number }): Granted {
  return { ok: true, record, validForMs: Math.min(record.leaseDurationMs, claim.leaseDurationMs) }
}

/**
 * The answer to a call that was not carried out.
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
  // No term above `afterTerm` was granted, so the one after it is higher than any before.
  const term = claim.afterTerm + 1
  if (Number.isSafeInteger(term)) return term
  throw new TenureError('TERM_EXHAUSTED', `Election "${claim.election}" has used its last term, ${claim.afterTerm}.`)
}
