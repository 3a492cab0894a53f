import type { AcquireClaim } from '../src/lease-store.ts'

/** What has become of a promise so far. */
export interface Outcome<T> {
  state: 'pending' | 'resolved' | 'rejected'
  value: T | undefined
  error: unknown
}

/** Follows a promise without waiting for it: in virtual time somebody has to move the clock meanwhile. */
export function follow<T>(promise: Promise<T>): Outcome<T> {
  const outcome: Outcome<T> = { state: 'pending', value: undefined, error: undefined }
  promise.then(
    (value) => Object.assign(outcome, { state: 'resolved', value }),
    (error: unknown) => Object.assign(outcome, { state: 'rejected', error }),
  )
  return outcome
}

export const never = new Promise<never>(() => undefined)

/** For calls that a test makes to a store itself. */
export const newCall = () => ({ signal: new AbortController().signal })
export const call = newCall()

export function claim(over: Partial<AcquireClaim> = {}): AcquireClaim {
  return { election: 'e', holder: 'other', attempt: 'x', leaseDurationMs: 15_000, afterTerm: 0, metadata: {}, ...over }
}
