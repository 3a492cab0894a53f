import type { Clock } from '../src/clock.ts'
import type { CallOptions, LeaseRecord, LeaseStore } from '../src/lease-store.ts'

export type Verb = 'read' | 'acquire' | 'renew' | 'release'

/**
 * What goes wrong with a call: it fails at once, its request is lost, or its reply is. A lost one is never answered.
 * Each ends when its signal aborts, as a client's call does.
 */
export type Fault = 'error' | 'request-lost' | 'reply-lost'

export interface FaultyStore extends LeaseStore {
  /** Asked before each call. */
  fault: (verb: Verb, election: string) => Fault | undefined
  /** A watch that stays open and tells nothing. */
  silentWatch: boolean
  readonly calls: { readonly verb: Verb; readonly atMs: number }[]
  /** Calls that were neither answered nor given up. */
  readonly open: number
  readonly mostOpen: number
}

export const refusedConnection = new Error('connect ECONNREFUSED')

/** One candidate's own connection to a real store; several candidates can have one each. */
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

/** The same store for candidates that cannot watch it. */
export function withoutWatch(store: FaultyStore): FaultyStore {
  delete store.watch
  return store
}

/** Everything that a partition does to one candidate. */
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
