import { isTenureError, type CallOptions, type LeaseRecord, type LeaseStore, type Outcome } from 'tenure'
import type { GlobalCall, ResourceKey } from 'tenure/internal/multicluster'
import type { GlobalCallReport } from './observer.ts'
import { report, withTimeout, type SharedRelay } from './relay-context.ts'

/** The answer from the global store: the record that a read found, or the outcome of a claim. */
export type GlobalAnswer =
  | { readonly found: LeaseRecord | undefined; readonly outcome?: undefined }
  | { readonly outcome: Outcome; readonly found?: undefined }

/** Errors that no retry can fix: the store has definitely refused the call and wrote nothing. */
const definite: readonly string[] = ['TERM_EXHAUSTED', 'INVALID_OPTION', 'INVALID_REQUEST', 'INVALID_TTL', 'TOO_LARGE']

export function isDefinite(error: unknown): error is Error & { readonly code: string } {
  return isTenureError(error) && definite.includes(error.code)
}

/** Makes one call to the global store when it is its turn. Renewals and releases go first. */
export async function callGlobal(
  shared: SharedRelay,
  about: ResourceKey & { readonly election: string },
  call: GlobalCall,
  bound: { readonly controller: AbortController; readonly timeoutMs: number; readonly isLook?: boolean },
): Promise<GlobalAnswer> {
  const { calls, clock, store, backend, observer } = shared
  const isUrgent = call.verb === 'renew' || call.verb === 'release'
  return calls.run(isUrgent, bound.controller.signal, async () => {
    const startedAtMs = clock.monotonicMs()
    const tell = (result: GlobalCallReport['result'], error?: unknown) => {
      const { namespace, name } = about
      const verb = bound.isLook ? 'look' : call.verb
      const durationMs = clock.monotonicMs() - startedAtMs
      report(() =>
        observer.onCall?.({ namespace, name, verb, result, durationMs, ...(error !== undefined && { error }) }),
      )
    }
    try {
      const answer = await withTimeout(clock, bound.timeoutMs, bound.controller.signal, (options) =>
        askStore(store, about.election, call, options),
      )
      tell(!answer.outcome ? 'found' : answer.outcome.ok ? 'granted' : 'refused')
      backend.noteAnswer()
      return answer
    } catch (error) {
      tell('failed', error)
      // An abandoned or invalid call says nothing about the store.
      if (!isDefinite(error) && !isGivenUp(error)) backend.noteFailure(error)
      throw error
    }
  })
}

/** Whether a call was abandoned because nobody was waiting for it anymore. */
export function isGivenUp(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError'
}

async function askStore(
  store: LeaseStore,
  election: string,
  call: GlobalCall,
  options: CallOptions,
): Promise<GlobalAnswer> {
  switch (call.verb) {
    case 'read':
      return { found: await store.read(election, options) }
    case 'acquire':
      return { outcome: await store.acquire(call.claim, options) }
    case 'renew':
      return { outcome: await store.renew(call.claim, options) }
    case 'release':
      return { outcome: await store.release(call.claim, options) }
  }
}
