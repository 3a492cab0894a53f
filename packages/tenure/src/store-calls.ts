import type { Call } from './election-state.ts'
import { TenureError } from './errors.ts'
import type { CallOptions, LeaseRecord, LeaseStore, Outcome } from './lease-store.ts'

/** What a call gave: an outcome, or what a read found. */
export interface Answer {
  readonly outcome?: Outcome
  readonly record?: LeaseRecord | undefined
}

/** Makes one call of the algorithm's, and checks what came back before anybody believes it. */
export async function callStore(
  store: LeaseStore,
  election: string,
  call: Call,
  controller: AbortController,
): Promise<Answer> {
  const options: CallOptions = {
    // Made only if the store looks at it: a signal costs more than a whole call to a store in memory.
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
 * Checks what a store answered before the algorithm sees it. An answer that is not understood counts as no answer: the
 * call failed, its outcome is unknown, and nothing is believed on its word.
 */
export function checkOutcome(outcome: unknown): Outcome {
  const answer = asObject(outcome, 'an answer')
  if (answer['ok'] === true) {
    if (!isPositive(answer['validForMs'])) throw invalid('a grant', 'validForMs', answer['validForMs'])
    const { leaseDurationMs, released } = checkRecord(answer['record'])
    // Others wait for as long as the record says: a lease that they cannot see the end of founds no belief.
    if (!released && leaseDurationMs === 0) throw invalid('a grant', 'leaseDurationMs', leaseDurationMs)
  } else if (answer['ok'] === false) {
    const { highestTerm, retryAfterMs } = answer
    if (!isTerm(highestTerm)) throw invalid('a refusal', 'highestTerm', highestTerm)
    if (retryAfterMs !== undefined && !isDuration(retryAfterMs))
      throw invalid('a refusal', 'retryAfterMs', retryAfterMs)
    if (answer['record'] !== undefined) checkRecord(answer['record'])
  } else {
    throw invalid('an answer', 'ok', answer['ok'])
  }
  return outcome as Outcome
}

/** Checks a record that a read or a watch showed. A duration of 0 is a missing one, which the algorithm replaces. */
export function checkFound(record: unknown): LeaseRecord | undefined {
  return record === undefined ? undefined : checkRecord(record)
}

function checkRecord(value: unknown): LeaseRecord {
  const record = asObject(value, 'a record')
  for (const field of ['election', 'holder', 'attempt', 'version', 'carry'] as const) {
    if (typeof record[field] !== 'string') throw invalid('a record', field, record[field])
  }
  if (!isTerm(record['term'])) throw invalid('a record', 'term', record['term'])
  if (typeof record['released'] !== 'boolean') throw invalid('a record', 'released', record['released'])
  if (!isDuration(record['leaseDurationMs'])) throw invalid('a record', 'leaseDurationMs', record['leaseDurationMs'])
  // Many a client says null for what is missing.
  const { mark = null } = record
  if (mark !== null && typeof mark !== 'string') throw invalid('a record', 'mark', mark)
  return value as LeaseRecord
}

function asObject(value: unknown, what: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  throw new TenureError('RECORD_INVALID', `The store gave ${what} that is ${value === null ? 'null' : typeof value}.`)
}

function isTerm(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

function isDuration(value: unknown): boolean {
  return typeof value === 'number' && value >= 0 && value < Infinity
}

function isPositive(value: unknown): boolean {
  return isDuration(value) && (value as number) > 0
}

function invalid(what: string, field: string, value: unknown): TenureError {
  return new TenureError('RECORD_INVALID', `The store gave ${what} whose "${field}" is ${String(value)}.`)
}
