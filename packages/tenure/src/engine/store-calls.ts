import { isTerm } from '@tenure/internal/field-reader'
import type { Call } from './election-state.ts'
import { TenureError } from '../common/errors.ts'
import type { CallOptions, LeaseRecord, LeaseStore, Outcome } from './lease-store.ts'

/** The result of a call: an outcome, or the record that a read found. */
export interface StoreAnswer {
  readonly outcome?: Outcome
  readonly record?: LeaseRecord | undefined
}

/** Makes one store call and validates the answer before the algorithm sees it. */
export async function callStore(
  store: LeaseStore,
  election: string,
  call: Call,
  controller: AbortController,
): Promise<StoreAnswer> {
  const options: CallOptions = {
    // Created only if the store reads it, because creating a signal costs more than a whole call to an in-memory store.
    get signal() {
      return controller.signal
    },
    timeoutMs: call.boundMs,
  }
  switch (call.verb) {
    case 'read':
      return { record: checkFound(await store.read(election, options)) }
    case 'acquire':
      return { outcome: checkOutcome(await store.acquire(call.claim, options)) }
    case 'renew':
      return { outcome: checkOutcome(await store.renew(call.claim, options)) }
    case 'release':
      return { outcome: checkOutcome(await store.release(call.claim, options)) }
  }
}

/**
 * Validates a store's answer before the algorithm sees it. An answer that cannot be understood counts as no answer: the
 * call failed, its outcome is unknown, and nothing is believed because of it.
 */
export function checkOutcome(outcome: unknown): Outcome {
  const answer = asObject(outcome, 'an answer')
  if (answer['ok'] === true) {
    if (!isPositive(answer['validForMs'])) throw invalid('a grant', 'validForMs', answer['validForMs'])
    const { leaseDurationMs, released } = checkRecord(answer['record'])
    // Others wait for the duration in the record. A process must not lead by a lease whose end the others cannot see.
    if (!released && leaseDurationMs === 0) throw invalid('a grant', 'leaseDurationMs', leaseDurationMs)
  } else if (answer['ok'] === false) {
    const { highestTerm, retryAfterMs } = answer
    if (!isTerm(highestTerm, 0)) throw invalid('a refusal', 'highestTerm', highestTerm)
    if (retryAfterMs !== undefined && !isDuration(retryAfterMs))
      throw invalid('a refusal', 'retryAfterMs', retryAfterMs)
    if (answer['record'] !== undefined) checkRecord(answer['record'])
  } else {
    throw invalid('an answer', 'ok', answer['ok'])
  }
  return outcome as Outcome
}

/**
 * Validates a record from a read or a watch. A duration of 0 means that it is missing, and the algorithm replaces it.
 */
export function checkFound(record: unknown): LeaseRecord | undefined {
  return record === undefined ? undefined : checkRecord(record)
}

function checkRecord(value: unknown): LeaseRecord {
  const record = asObject(value, 'a record')
  for (const field of ['election', 'holder', 'attempt', 'version', 'checkpoint'] as const) {
    if (typeof record[field] !== 'string') throw invalid('a record', field, record[field])
  }
  if (!isTerm(record['term'], 0)) throw invalid('a record', 'term', record['term'])
  if (typeof record['released'] !== 'boolean') throw invalid('a record', 'released', record['released'])
  if (!isDuration(record['leaseDurationMs'])) throw invalid('a record', 'leaseDurationMs', record['leaseDurationMs'])
  // Many clients use null for a missing value.
  const { writeId = null, successor = null } = record
  if (writeId !== null && typeof writeId !== 'string') throw invalid('a record', 'writeId', writeId)
  if (successor !== null && typeof successor !== 'string') throw invalid('a record', 'successor', successor)
  return value as LeaseRecord
}

function asObject(value: unknown, what: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  throw new TenureError(
    'RECORD_INVALID',
    `The store returned ${what} that is ${value === null ? 'null' : typeof value} instead of an object.`,
  )
}

function isDuration(value: unknown): boolean {
  return typeof value === 'number' && value >= 0 && value < Infinity
}

function isPositive(value: unknown): boolean {
  return isDuration(value) && (value as number) > 0
}

function invalid(what: string, field: string, value: unknown): TenureError {
  return new TenureError('RECORD_INVALID', `The store returned ${what} with an invalid "${field}": ${String(value)}.`)
}
