import type { CompareAndSwap, VersionedValue } from '../stores/cas.ts'
import type { CallOptions } from '../lease-store.ts'

/** A linearizable key-value server with compare-and-swap and, if wanted, watches. */
export interface SimulatedKv extends CompareAndSwap {
  delete(election: string): void
}

/** Makes one. Versions count over all keys, so that a key that returns gets versions it never had. */
export function simulatedKv(options: { watch: boolean }): SimulatedKv {
  const values = new Map<string, VersionedValue>()
  const watchers = new Set<(election: string) => void>()
  let writes = 0

  const notify = (election: string) => {
    for (const watcher of watchers) watcher(election)
  }

  async function* watch(election: string, { signal }: CallOptions): AsyncIterable<VersionedValue | undefined> {
    const news: (VersionedValue | undefined)[] = [values.get(election)]
    let wake: (() => void) | undefined
    const watcher = (changed: string) => {
      if (changed === election) news.push(values.get(election))
      wake?.()
    }
    watchers.add(watcher)
    signal.addEventListener('abort', () => wake?.(), { once: true })
    try {
      while (!signal.aborted) {
        while (news.length > 0 && !signal.aborted) yield news.shift()
        if (!signal.aborted) await new Promise<void>((resolve) => (wake = resolve))
      }
    } finally {
      watchers.delete(watcher)
    }
  }

  return {
    get: async (election) => values.get(election),
    putIfVersion: async (election, value, version) => {
      if (values.get(election)?.version !== version) return undefined
      const next = { value, version: String(++writes) }
      values.set(election, next)
      notify(election)
      return next.version
    },
    ...(options.watch && { watch }),
    delete(election) {
      if (values.delete(election)) notify(election)
    },
  }
}
