import type { CallOptions } from 'tenure'
import type { Current, RecordDraft, SwapOutcome, SwapServer } from 'tenure/store-kit'
import { watchesOf } from './watches.ts'

/** A server that compares and swaps in one step and stores the highest term separately from the record. */
export interface SimulatedSwap extends SwapServer<Current> {
  delete(election: string): void
}

/**
 * Creates the server, which behaves like a transaction or a script in a key-value server. A refusal returns the current
 * state. The highest term and its lease duration outlive the record.
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
    async swap(election: string, over: Current, draft: RecordDraft): Promise<SwapOutcome<Current>> {
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
