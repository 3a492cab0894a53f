import type { CallOptions, LeaseRecord, LeaseStore } from 'tenure'

/** The network link between a candidate and its store. While it is cut, no call arrives and no answer returns. */
export class NetworkLink {
  isCut = false
  readonly store: LeaseStore

  constructor(store: LeaseStore) {
    this.store = {
      expiry: store.expiry,
      terms: store.terms,
      read: (election, options) => this.#pass(options, () => store.read(election, options)),
      acquire: (claim, options) => this.#pass(options, () => store.acquire(claim, options)),
      renew: (claim, options) => this.#pass(options, () => store.renew(claim, options)),
      release: (claim, options) => this.#pass(options, () => store.release(claim, options)),
      watch: (election, options) => this.#watch(store, election, options),
      close: async () => store.close?.(),
    }
  }

  async #pass<T>({ signal }: CallOptions, call: () => Promise<T>): Promise<T> {
    if (!this.isCut) {
      const answer = await call()
      if (!this.isCut) return answer
    }
    return new Promise((_, reject) => {
      const fail = () => reject(signal.reason as Error)
      if (signal.aborted) fail()
      else signal.addEventListener('abort', fail, { once: true })
    })
  }

  async *#watch(store: LeaseStore, election: string, options: CallOptions): AsyncGenerator<LeaseRecord | undefined> {
    for await (const record of store.watch?.(election, options) ?? []) if (!this.isCut) yield record
  }
}
