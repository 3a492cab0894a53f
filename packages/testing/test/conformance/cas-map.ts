import { createHash } from 'node:crypto'
import type { CallOptions } from '../../../tenure/src/engine/lease-store.ts'
import type { CompareAndSwap, VersionedValue } from '../../../tenure/src/store-kit/cas-store.ts'
import { keysOn } from '../../../tenure/src/store-kit/list.ts'

/** A linearizable compare-and-swap map in this process, with one revision counter for all keys, like etcd. */
export class CasMap {
  readonly #values = new Map<string, VersionedValue>()
  readonly #watchers = new Set<() => void>()
  readonly #hashes: boolean
  #revision = 0
  #chance = 20_261_115

  /** With `hashes`, a version is the hash of its value, like the ETag of many object stores. */
  constructor(options: { hashes?: boolean } = {}) {
    this.#hashes = options.hashes ?? false
  }

  /**
   * Opens one client of the map. Requests and answers take a few turns of the event loop, so calls can overtake each
   * other.
   */
  backend(options: { watch?: boolean } = {}): CompareAndSwap {
    return {
      get: async (election) => {
        await this.#travel()
        const found = this.#values.get(election)
        await this.#travel()
        return found
      },
      putIfVersion: async (election, value, version) => {
        await this.#travel()
        const applied = this.#values.get(election)?.version === version
        const next = this.#hashes ? createHash('md5').update(value).digest('hex') : String(++this.#revision)
        if (applied) this.#set(election, { value, version: next })
        await this.#travel()
        return applied ? next : undefined
      },
      removeIfVersion: async (election, version) => {
        await this.#travel()
        const applied = this.#values.get(election)?.version === version
        if (applied) this.#set(election, undefined)
        await this.#travel()
        return applied
      },
      list: async ({ after, limit }) => {
        await this.#travel()
        const { keys, next } = keysOn({ after, limit }, [...this.#values.keys()].toSorted())
        return { values: keys.flatMap((key) => this.#values.get(key) ?? []), next }
      },
      ...(options.watch && { watch: (election: string, { signal }: CallOptions) => this.#watch(election, signal) }),
    }
  }

  remove(election: string): void {
    this.#set(election, undefined)
  }

  async #travel(): Promise<void> {
    this.#chance = (this.#chance * 48_271) % 2_147_483_647
    for (let turns = this.#chance % 4; turns >= 0; turns--) await new Promise((resolve) => setImmediate(resolve))
  }

  #set(election: string, value: VersionedValue | undefined): void {
    if (value) this.#values.set(election, value)
    else this.#values.delete(election)
    for (const wake of this.#watchers) wake()
  }

  async *#watch(election: string, signal: AbortSignal): AsyncGenerator<VersionedValue | undefined> {
    let wake = () => {}
    const onChange = () => wake()
    this.#watchers.add(onChange)
    signal.addEventListener('abort', onChange, { once: true })
    try {
      let shown: string | undefined | null = null
      while (!signal.aborted) {
        const changed = new Promise<void>((resolve) => (wake = resolve))
        const found = this.#values.get(election)
        if (found?.version !== shown) {
          shown = found?.version
          yield found
        } else await changed
      }
    } finally {
      this.#watchers.delete(onChange)
      signal.removeEventListener('abort', onChange)
    }
  }
}
