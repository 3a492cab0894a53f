import { AsyncQueue } from '@tenure/internal/async-queue'
import { systemClock, type Clock } from '../../common/clock.ts'
import { ownCheckpointLimitBytes, checkClock } from '../../engine/check-values.ts'
import { checkOptions } from '../../common/check-options.ts'
import type {
  CallOptions,
  ForgetClaim,
  Forgotten,
  LeaseRecord,
  LeaseStore,
  ListPage,
  Outcome,
  Refused,
} from '../../engine/lease-store.ts'
import { buildStore, type StoreBackend } from '../../store-kit/locking-store.ts'
import { keysOn, listPage, type Page } from '../../store-kit/list.ts'
import { granted, type Current, type RecordDraft, type Verdict } from '../../store-kit/rules.ts'

interface MemoryEntry {
  record: LeaseRecord | undefined
  // These fields are kept outside the record and survive its deletion, so that no term or version is ever reused.
  highestTerm: number
  writes: number
  expiresAtMs: number
  watchers: Set<MemoryWatcher> | undefined
}

/** A store in this process's memory. */
export interface MemoryStore extends LeaseStore {
  /** Deletes a record as an operator would, without the electors' knowledge. The highest term is kept. */
  delete(election: string): void
}

/**
 * Keeps leases in this process's memory. For tests, and for elections within one program.
 *
 * @example
 * const store = memoryStore()
 * await lead({ store, election: 'compaction' }, async ({ signal }) => compact({ signal }))
 */
export function memoryStore(options: { clock?: Clock | undefined } = {}): MemoryStore {
  checkOptions('memoryStore()', options, { clock: true })
  checkClock(options.clock)
  const { clock = systemClock } = options
  const backend = new MemoryBackend(clock)
  return { ...buildStore(backend, clock), delete: (election) => backend.delete(election) }
}

/**
 * Does not use the compare-and-swap store: it decides and writes in one synchronous step, so there is nothing to
 * compare.
 */
class MemoryBackend implements StoreBackend {
  readonly expiry = 'own-clock'
  readonly checkpointLimitBytes = ownCheckpointLimitBytes
  readonly keepsTerms = true
  readonly #clock: Clock
  readonly #entries = new Map<string, MemoryEntry>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  async find(election: string): Promise<Current> {
    return this.#currentOf(this.#entries.get(election) ?? unwritten)
  }

  async change(
    claim: { readonly election: string; readonly leaseDurationMs: number },
    _call: CallOptions,
    judge: (current: Current) => Verdict,
  ): Promise<Outcome> {
    const entry = this.#entryOf(claim.election)
    const verdict = judge(this.#currentOf(entry))
    if ('answer' in verdict) return verdict.answer
    return granted(this.#write(entry, verdict.write), claim)
  }

  async forget(
    { election, withTerm = false }: ForgetClaim,
    _call: CallOptions,
    judge: (current: Current) => Refused | undefined,
  ): Promise<Forgotten> {
    const entry = this.#entries.get(election) ?? unwritten
    const refusal = judge(this.#currentOf(entry))
    if (refusal) return refusal
    this.delete(election)
    // The write count stays, so that no version is ever reused.
    if (withTerm) this.#entryOf(election).highestTerm = 0
    return { ok: true }
  }

  async list(page: Page): Promise<ListPage> {
    const recorded = [...this.#entries].filter(([, { record }]) => record).map(([election]) => election)
    const { keys, next } = keysOn(page, recorded.toSorted())
    return listPage(keys, next, (election) => this.#entries.get(election)?.record)
  }

  watch(election: string, options: CallOptions): AsyncIterable<LeaseRecord | undefined> {
    return { [Symbol.asyncIterator]: () => this.#watcherOf(election, options) }
  }

  delete(election: string): void {
    const entry = this.#entries.get(election)
    if (!entry?.record) return
    entry.record = undefined
    notify(entry)
  }

  #entryOf(election: string): MemoryEntry {
    let entry = this.#entries.get(election)
    if (!entry) {
      entry = { ...unwritten }
      this.#entries.set(election, entry)
    }
    return entry
  }

  #currentOf({ record, highestTerm, expiresAtMs }: MemoryEntry): Current {
    return { record, highestTerm, remainingMs: expiresAtMs - this.#clock.monotonicMs() }
  }

  #write(entry: MemoryEntry, draft: RecordDraft): LeaseRecord {
    const record = { ...draft, version: String(++entry.writes) }
    entry.record = record
    entry.highestTerm = Math.max(entry.highestTerm, record.term)
    entry.expiresAtMs = this.#clock.monotonicMs() + (record.released ? 0 : record.leaseDurationMs)
    notify(entry)
    return record
  }

  #watcherOf(election: string, { signal }: CallOptions): MemoryWatcher {
    const entry = this.#entryOf(election)
    const watchers = (entry.watchers ??= new Set())
    const watcher = new MemoryWatcher(entry.record, () => watchers.delete(watcher))
    if (signal.aborted) return watcher.end()
    watchers.add(watcher)
    signal.addEventListener('abort', () => watcher.end(), { once: true })
    return watcher
  }
}

const unwritten: Readonly<MemoryEntry> = {
  record: undefined,
  highestTerm: 0,
  writes: 0,
  expiresAtMs: -Infinity,
  watchers: undefined,
}

function notify(entry: MemoryEntry): void {
  for (const watcher of entry.watchers ?? []) watcher.show(entry.record)
}

/** Holds only the newest state, so that a slow reader skips states instead of filling the memory. */
class MemoryWatcher implements AsyncIterator<LeaseRecord | undefined> {
  readonly #news: AsyncQueue<LeaseRecord | undefined>
  readonly #onEnd: () => void

  constructor(record: LeaseRecord | undefined, onEnd: () => void) {
    this.#news = new AsyncQueue<LeaseRecord | undefined>('latest', record)
    this.#onEnd = onEnd
  }

  show(record: LeaseRecord | undefined): void {
    this.#news.put(record)
  }

  end(): this {
    this.#news.clear()
    this.#news.end()
    this.#onEnd()
    return this
  }

  async next(): Promise<IteratorResult<LeaseRecord | undefined, undefined>> {
    while (this.#news.size === 0 && !this.#news.isEnded) await this.#news.ready()
    return this.#news.isEnded ? { done: true, value: undefined } : { done: false, value: this.#news.take() }
  }

  async return(): Promise<IteratorResult<LeaseRecord | undefined, undefined>> {
    this.end()
    return { done: true, value: undefined }
  }
}
