import { TenureError } from '../errors.ts'
import {
  absentVersion,
  type AcquireClaim,
  type Granted,
  type HeldClaim,
  type LeaseRecord,
  type Outcome,
  type Refused,
} from '../lease-store.ts'

/** What a store holds for one election at the moment of a call, read under its lock or for its compare-and-swap. */
export interface Current {
  readonly record: LeaseRecord | undefined
  /** At least the record's term. */
  readonly highestTerm: number
  /**
   * What is left of the newest lease on the store's own clock, also when its record was deleted; zero or less if it
   * ran out or was released; undefined if the store cannot judge that.
   */
  readonly remainingMs: number | undefined
}

/** A record that is about to be written. Each store gives it a version. */
export type Draft = Omit<LeaseRecord, 'version'>

/** What a store has to do: write, then answer with a grant; or answer at once. */
export type Verdict = { readonly write: Draft } | { readonly answer: Outcome }

/** The rules of `LeaseStore.acquire`, for every store that reads a record, decides and writes. */
export function judgeAcquire(current: Current, claim: AcquireClaim, wallMs: number): Verdict {
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

/** The rules of `LeaseStore.renew`. A store that cannot judge expiry accepts a late renewal of a version nobody took. */
export function judgeRenew(current: Current, claim: HeldClaim, wallMs: number): Verdict {
  const record = matching(current, claim)
  if (!record || hasExpired(current)) return { answer: refused(current) }
  return {
    write: {
      ...record,
      leaseDurationMs: claim.leaseDurationMs,
      renewedAt: wallMs,
      carry: claim.carry ?? record.carry,
    },
  }
}

/** The rules of `LeaseStore.release`. */
export function judgeRelease(current: Current, claim: HeldClaim): Verdict {
  const record = matching(current, claim)
  return record ? { write: { ...record, released: true } } : { answer: refused(current) }
}

/** The answer to a call that was carried out. */
export function granted(record: LeaseRecord, claim: { readonly leaseDurationMs: number }): Granted {
  return { ok: true, record, validForMs: Math.min(record.leaseDurationMs, claim.leaseDurationMs) }
}

function refused({ record, highestTerm, remainingMs }: Current): Refused {
  const known = remainingMs !== undefined && !record?.released
  return {
    ok: false,
    ...(record && { record }),
    highestTerm,
    ...(known && { retryAfterMs: Math.max(0, remainingMs) }),
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
