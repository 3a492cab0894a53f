import type { CallOptions } from '../lease-store.ts'
import type { Current, Draft } from '../stores/rules.ts'
import type { SwapServer, Swapped } from '../stores/swap.ts'
import { watchesOf } from './watches.ts'

/** A server that compares and swaps in one step, with the highest term in a place of its own. */
export interface SimulatedSwap extends SwapServer<Current> {
  delete(election: string): void
}

/**
 * Makes one: what a transaction of a key-value server does, or a script. A refusal shows what is there. The highest term
 * outlives the record, together with the duration of its lease.
 */
export function simulatedSwap(): SimulatedSwap {
  const entries = new Map<string, Current>()
  const changes = watchesOf((election: string) => found(election))
  let writes = 0

  const found = (election: string): Current => entries.get(election) ?? nothing

  const put = (election: string, current: Current) => {
    entries.set(election, current)
    changes.notify(election)
  }

  return {
    expiry: 'observed',
    nothing,
    find: async (election) => found(election),
    async swap(election: string, over: Current, draft: Draft): Promise<Swapped<Current>> {
      const current = found(election)
      const isSame = current.record?.version === over.record?.version && current.highestTerm === over.highestTerm
      if (!isSame) return { ok: false, found: current }
      const record = { ...draft, version: String(++writes) }
      const highestTerm = Math.max(current.highestTerm, record.term)
      const next = { record, highestTerm, remainingMs: undefined, lastDurationMs: record.leaseDurationMs }
      put(election, next)
      return { ok: true, found: next }
    },
    async remove(election: string, over: Current, withTerm: boolean): Promise<boolean> {
      const current = found(election)
      if (current.record?.version !== over.record?.version || current.highestTerm !== over.highestTerm) return false
      put(election, withTerm ? nothing : { ...current, record: undefined })
      return true
    },
    watch: (election: string, { signal }: CallOptions) => changes.watch(election, signal),
    delete(election) {
      if (entries.has(election)) put(election, { ...found(election), record: undefined })
    },
  }
}

const nothing: Current = { record: undefined, highestTerm: 0, remainingMs: undefined }
