import { AsyncQueue } from '@tenure/internal/async-queue'
import type { Clock } from '../common/clock.ts'
import type { LeaseRecord } from '../engine/lease-store.ts'
import { candidateRecord } from './protocol/answer-codec.ts'
import { isGlobalHolder } from './protocol/holder-names.ts'
import type { MultiClusterLease } from './protocol/resource-types.ts'
import type { ResourceObserver, ResourceListener } from './resource-observer.ts'

const quietMs = 90_000

/**
 * Watches the global record in the status. A controller serves an election only while it receives requests for it. So a
 * store that only watches sends a read after two lease durations without a change.
 */
export class RecordWatch implements ResourceListener {
  readonly #election: string
  readonly #view: ResourceObserver
  readonly #clock: Clock
  readonly #signal: AbortSignal
  /** The newest state, until it is read. A slow reader skips states. */
  readonly #news = new AsyncQueue<MultiClusterLease>('latest')
  #failure: { readonly error: unknown } | undefined
  #shown: LeaseRecord | undefined
  /** The uid of the resource that showed the record. */
  #shownIn: string | undefined

  constructor(election: string, view: ResourceObserver, clock: Clock, signal: AbortSignal) {
    this.#election = election
    this.#view = view
    this.#clock = clock
    this.#signal = signal
    view.add(this)
    // End the watch even if the reader has taken a state and never asks for the next one. In that case nothing else
    // would end it.
    signal.addEventListener('abort', () => this.end(), { once: true })
  }

  /** Yields the state that `read` finds, then each change. */
  async *records(
    read: () => Promise<LeaseRecord | undefined>,
  ): AsyncGenerator<LeaseRecord | undefined, void, undefined> {
    // The error was reported once, when the watch was opened. From then on the engine polls without a watch.
    if (this.#view.forbidden !== undefined) return
    yield (this.#shown = await read())
    while (!this.#signal.aborted) {
      await this.#news.readyWithin(this.#clock, silenceOf(this.#shown))
      if (this.#signal.aborted) return
      if (this.#failure) throw this.#failure.error
      if (this.#news.isEnded) return
      const news = this.#news.take()
      const record = news ? this.#recordIn(news) : await read()
      const before = this.#shown
      this.#shown = record
      if (record?.version === before?.version || isRenewalElsewhere(before, record)) continue
      yield record
    }
  }

  seen(resource: MultiClusterLease | undefined, isEvent: boolean): void {
    // Events are ordered. The answer to a request between two events could show an earlier state.
    if (!resource || (!isEvent && this.#view.isLive)) return
    this.#news.put(resource)
  }

  deleted(): void {}

  unwatched(error: unknown): void {
    this.#failure = { error }
    this.#news.end()
  }

  end(): void {
    this.#news.end()
    this.#view.remove(this)
  }

  /** The record in the status, or the record already shown if the status contains nothing new. */
  #recordIn({ uid, status }: MultiClusterLease): LeaseRecord | undefined {
    if (status.record) {
      const record = candidateRecord(this.#election, status.record)
      this.#shownIn = uid
      // A late event may show an earlier term, which must not replace the newer one.
      return record.term < (this.#shown?.term ?? 0) ? this.#shown : record
    }
    // A recreated resource has not received the record yet. If the same resource showed the record before, the record
    // was deleted.
    return this.#shownIn === uid ? undefined : this.#shown
  }
}

/**
 * Whether this is a renewal from another cluster. Such a renewal reaches the status late, for example together with the
 * answer to another candidate. A standby that saw it would count the whole lease from that late moment. The controller
 * has observed the renewal in time, and its answers tell standbys when to retry.
 */
function isRenewalElsewhere(before: LeaseRecord | undefined, after: LeaseRecord | undefined): boolean {
  if (!before || !after || before.released || after.released) return false
  return isGlobalHolder(after.holder) && before.attempt === after.attempt && before.term === after.term
}

function silenceOf(record: LeaseRecord | undefined): number {
  return record && !record.released ? Math.min(quietMs, record.leaseDurationMs * 2) : quietMs
}
