import { systemClock, type Clock } from '../clock.ts'
import { checkClock, checkObject } from '../options.ts'
import type { CallOptions, LeaseRecord, LeaseStore, Outcome } from '../lease-store.ts'
import { granted, judgeAcquire, judgeRelease, judgeRenew, type Current, type Draft, type Verdict } from './rules.ts'

interface Entry {
  record: LeaseRecord | undefined
  // Kept apart from the record: they outlive its deletion, so that no term and no version ever returns.
  highestTerm: number
  writes: number
  expiresAtMs: number
  watchers: Set<Watcher> | undefined
}

/** A store in this process's memory. */
export interface MemoryStore extends LeaseStore {
  /** Deletes a record the way an operator would, behind the electors' backs. Its highest term stays. */
  delete(election: string): void
}

/**
 * Holds leases in this process: for tests, and for electing among the parts of one program.
 *
 * @example
 * const store = memoryStore()
 * await lead({ store, election: 'compaction' }, async ({ signal }) => compact({ signal }))
 */
export function memoryStore(options: { clock?: Clock } = {}): MemoryStore {
  checkObject('options', options)
  checkClock(options.clock)
  const { clock = systemClock } = options
  const entries = new Map<string, Entry>()

  const entryOf = (election: string): Entry => {
    let entry = entries.get(election)
    if (!entry) {
      entry = { record: undefined, highestTerm: 0, writes: 0, expiresAtMs: -Infinity, watchers: undefined }
      entries.set(election, entry)
    }
    return entry
  }

  const apply = (
    claim: { election: string; leaseDurationMs: number },
    judge: (current: Current) => Verdict,
  ): Outcome => {
    const entry = entryOf(claim.election)
    const { record, highestTerm } = entry
    const verdict = judge({ record, highestTerm, remainingMs: entry.expiresAtMs - clock.monotonicMs() })
    if ('answer' in verdict) return verdict.answer
    return granted(write(entry, verdict.write), claim)
  }

  const write = (entry: Entry, draft: Draft): LeaseRecord => {
    const record = { ...draft, version: String(++entry.writes) }
    entry.record = record
    entry.highestTerm = Math.max(entry.highestTerm, record.term)
    entry.expiresAtMs = clock.monotonicMs() + (record.released ? 0 : record.leaseDurationMs)
    notify(entry)
    return record
  }

  const watcherOf = (election: string, { signal }: CallOptions): Watcher => {
    const entry = entryOf(election)
    const watchers = (entry.watchers ??= new Set())
    const watcher = new Watcher(entry.record, () => watchers.delete(watcher))
    if (signal.aborted) return watcher.end()
    watchers.add(watcher)
    signal.addEventListener('abort', () => watcher.end(), { once: true })
    return watcher
  }

  return {
    expiry: 'own-clock',
    terms: true,
    read: async (election) => entries.get(election)?.record,
    acquire: async (claim) => apply(claim, (current) => judgeAcquire(current, claim, clock.wallMs())),
    renew: async (claim) => apply(claim, (current) => judgeRenew(current, claim, clock.wallMs())),
    release: async (claim) => apply(claim, (current) => judgeRelease(current, claim)),
    watch: (election, options) => ({ [Symbol.asyncIterator]: () => watcherOf(election, options) }),
    delete(election) {
      const entry = entries.get(election)
      if (!entry?.record) return
      entry.record = undefined
      notify(entry)
    },
  }
}

function notify(entry: Entry): void {
  for (const watcher of entry.watchers ?? []) watcher.show(entry.record)
}

/** Holds the newest state only: a slow reader skips states instead of filling the memory. */
class Watcher implements AsyncIterator<LeaseRecord | undefined> {
  #news: { record: LeaseRecord | undefined } | undefined
  #wake: (() => void) | undefined
  #ended = false
  readonly #onEnd: () => void

  constructor(record: LeaseRecord | undefined, onEnd: () => void) {
    this.#news = { record }
    this.#onEnd = onEnd
  }

  show(record: LeaseRecord | undefined): void {
    this.#news = { record }
    this.#wake?.()
  }

  end(): this {
    this.#ended = true
    this.#onEnd()
    this.#wake?.()
    return this
  }

  async next(): Promise<IteratorResult<LeaseRecord | undefined, undefined>> {
    while (!this.#news && !this.#ended) await new Promise<void>((resolve) => (this.#wake = resolve))
    if (this.#ended || !this.#news) return { done: true, value: undefined }
    const { record } = this.#news
    this.#news = undefined
    return { done: false, value: record }
  }

  async return(): Promise<IteratorResult<LeaseRecord | undefined, undefined>> {
    this.end()
    return { done: true, value: undefined }
  }
}
