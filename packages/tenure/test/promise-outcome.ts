import type { AcquireClaim } from '../src/engine/lease-store.ts'

/** The state of a promise so far. */
export interface Outcome<T> {
  state: 'pending' | 'resolved' | 'rejected'
  value: T | undefined
  error: unknown
}

/** Tracks a promise without waiting for it, because in virtual time the test must advance the clock in the meantime. */
export function follow<T>(promise: Promise<T>): Outcome<T> {
  const outcome: Outcome<T> = { state: 'pending', value: undefined, error: undefined }
  promise.then(
    (value) => Object.assign(outcome, { state: 'resolved', value }),
    (error: unknown) => Object.assign(outcome, { state: 'rejected', error }),
  )
  return outcome
}

export const never = new Promise<never>(() => undefined)

/** Options for calls that a test makes to a store directly. */
export const newCall = () => ({ signal: new AbortController().signal })
export const call = newCall()

export function claim(over: Partial<AcquireClaim> = {}): AcquireClaim {
  return { election: 'e', holder: 'other', attempt: 'x', leaseDurationMs: 15_000, afterTerm: 0, metadata: {}, ...over }
}
