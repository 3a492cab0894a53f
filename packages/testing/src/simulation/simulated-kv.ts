import type { CompareAndSwap, VersionedValue } from 'tenure'
import { watchesOf } from './watches.ts'

/** A linearizable key-value server with compare-and-swap and optional watches. */
export interface SimulatedKv extends CompareAndSwap {
  delete(election: string): void
}

/** Creates the server. Versions count across all keys, so a key that is created again never reuses a version. */
export function simulatedKv(options: { watch: boolean }): SimulatedKv {
  const values = new Map<string, VersionedValue>()
  const changes = watchesOf((election: string) => values.get(election))
  let writes = 0

  return {
    get: async (election) => values.get(election),
    putIfVersion: async (election, value, version) => {
      if (values.get(election)?.version !== version) return undefined
      const next = { value, version: String(++writes) }
      values.set(election, next)
      changes.notify(election)
      return next.version
    },
    ...(options.watch && { watch: (election, { signal }) => changes.watch(election, signal) }),
    delete(election) {
      if (values.delete(election)) changes.notify(election)
    },
  }
}
