import type { CallOptions, LeaseStore, Outcome } from '../src/index.ts'

type Verb = 'read' | 'acquire' | 'renew' | 'release'
type Fate = 'pass' | 'fail' | 'lose-request' | 'lose-answer'

/** A connection to a real store on which requests and answers can be lost, refused, or delayed. */
export interface Wire {
  readonly store: LeaseStore
  /** Sets the fault of all later calls of this verb. */
  fate(verb: Verb | 'all', fate: Fate): void
  /** Holds the answers of this verb until the returned function is called. The store performs the calls at once. */
  hold(verb: Verb): () => void
  /** Every call so far, in order. */
  readonly calls: readonly { readonly verb: Verb; readonly claim: unknown }[]
}

export function wire(store: LeaseStore, options: { watch?: boolean | undefined } = {}): Wire {
  const fates = new Map<Verb, Fate>()
  const held = new Map<Verb, Promise<void>>()
  const calls: { verb: Verb; claim: unknown }[] = []

  const through = async <T>(
    verb: Verb,
    claim: unknown,
    { signal }: CallOptions,
    apply: () => Promise<T>,
  ): Promise<T> => {
    calls.push({ verb, claim })
    const fate = fates.get(verb) ?? 'pass'
    if (fate === 'fail') throw new Error(`The wire refused "${verb}".`)
    const aborted = new Promise<never>((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    })
    if (fate === 'lose-request') return aborted
    const answer = await apply()
    if (fate === 'lose-answer') return aborted
    const hold = held.get(verb)
    if (hold) await Promise.race([hold, aborted])
    return answer
  }

  const { watch } = store
  return {
    calls,
    fate(verb, fate) {
      for (const each of verb === 'all' ? (['read', 'acquire', 'renew', 'release'] as const) : [verb])
        fates.set(each, fate)
    },
    hold(verb) {
      let open = (): void => undefined
      held.set(verb, new Promise<void>((resolve) => (open = resolve)))
      return () => {
        held.delete(verb)
        open()
      }
    },
    store: {
      expiry: store.expiry,
      terms: store.terms,
      read: (election, call) => through('read', election, call, () => store.read(election, call)),
      acquire: (claim, call) => through<Outcome>('acquire', claim, call, () => store.acquire(claim, call)),
      renew: (claim, call) => through<Outcome>('renew', claim, call, () => store.renew(claim, call)),
      release: (claim, call) => through<Outcome>('release', claim, call, () => store.release(claim, call)),
      ...(watch && options.watch !== false && { watch: (election, call) => watch.call(store, election, call) }),
    },
  }
}
