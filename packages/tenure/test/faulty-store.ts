import type { Clock } from '../src/common/clock.ts'
import type { CallOptions, LeaseRecord, LeaseStore } from '../src/engine/lease-store.ts'

export type Verb = 'read' | 'acquire' | 'renew' | 'release'

/**
 * The fault of a call: it fails at once, its request is lost, or its reply is lost. A lost call is never answered. It
 * ends when its signal aborts, like the call of a real client.
 */
export type Fault = 'error' | 'request-lost' | 'reply-lost'

export interface FaultyStore extends LeaseStore {
  /** Called before each call. Returns the fault of that call, or undefined if it succeeds. */
  fault: (verb: Verb, election: string) => Fault | undefined
  /** Whether new watches stay open without ever yielding an event. */
  silentWatch: boolean
  readonly calls: { readonly verb: Verb; readonly atMs: number }[]
  /** The number of calls that were neither answered nor aborted. */
  readonly open: number
  readonly mostOpen: number
}

export const refusedConnection = new Error('connect ECONNREFUSED')

/** A candidate's own connection to a real store. Several candidates can each have one. */
export function faultyStore(inner: LeaseStore, clock: Clock): FaultyStore {
  let open = 0
  let mostOpen = 0
  const call = async <T>(verb: Verb, election: string, { signal }: CallOptions, send: () => Promise<T>): Promise<T> => {
    store.calls.push({ verb, atMs: clock.monotonicMs() })
    mostOpen = Math.max(mostOpen, ++open)
    let isOpen = true
    const close = () => {
      if (isOpen) open -= 1
      isOpen = false
    }
    signal.addEventListener('abort', close, { once: true })
    try {
      const fault = store.fault(verb, election)
      if (fault === 'error') throw refusedConnection
      if (fault === 'request-lost') return await silence(signal)
      const answer = await send()
      return fault === 'reply-lost' ? await silence(signal) : answer
    } finally {
      close()
    }
  }
  const store: FaultyStore = {
    expiry: inner.expiry,
    terms: inner.terms,
    fault: () => undefined,
    silentWatch: false,
    calls: [],
    get open() {
      return open
    },
    get mostOpen() {
      return mostOpen
    },
    read: (election, options) => call('read', election, options, () => inner.read(election, options)),
    acquire: (claim, options) => call('acquire', claim.election, options, () => inner.acquire(claim, options)),
    renew: (claim, options) => call('renew', claim.election, options, () => inner.renew(claim, options)),
    release: (claim, options) => call('release', claim.election, options, () => inner.release(claim, options)),
    ...(inner.watch && {
      async *watch(election: string, options: CallOptions): AsyncGenerator<LeaseRecord | undefined> {
        if (store.silentWatch) await ended(options.signal)
        else yield* inner.watch?.(election, options) ?? []
      },
    }),
  }
  return store
}

/** Removes watch from the store, so that its candidates must poll. */
export function withoutWatch(store: FaultyStore): FaultyStore {
  delete store.watch
  return store
}

/** Cuts one candidate off as a network partition does: no call is answered, and its watch is silent. */
export function cutOff(store: FaultyStore): void {
  store.fault = () => 'request-lost'
  store.silentWatch = true
}

function ended(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

async function silence(signal: AbortSignal): Promise<never> {
  await ended(signal)
  throw signal.reason
}
