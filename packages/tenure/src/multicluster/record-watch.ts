import { pause } from '@tenure/internal/pause'
import type { Clock } from '../clock.ts'
import type { LeaseRecord } from '../lease-store.ts'
import { relayedRecordOf } from './answers.ts'
import type { MultiClusterLease } from './resource.ts'
import type { ResourceView, Viewer } from './resource-view.ts'

const quietMs = 90_000

/**
 * The global record as the status shows it. A controller looks after an election only while somebody asks, so a
 * store that does nothing but watch asks now and then: after two leases without news.
 */
export class RecordWatch implements Viewer {
  readonly #election: string
  readonly #view: ResourceView
  readonly #clock: Clock
  readonly #signal: AbortSignal
  /** Only the newest: a slow reader skips states. */
  #news: MultiClusterLease | undefined
  #failure: { readonly error: unknown } | undefined
  #wake: AbortController | undefined
  #shown: LeaseRecord | undefined
  /** The resource that showed it. */
  #shownIn: string | undefined

  constructor(election: string, view: ResourceView, clock: Clock, signal: AbortSignal) {
    this.#election = election
    this.#view = view
    this.#clock = clock
    this.#signal = signal
    view.add(this)
    // Also where the reader has taken a state and does not come back for the next: nothing else would end it.
    signal.addEventListener('abort', () => this.end(), { once: true })
  }

  /** The state as `read` finds it, then each change. */
  async *records(
    read: () => Promise<LeaseRecord | undefined>,
  ): AsyncGenerator<LeaseRecord | undefined, void, undefined> {
    // Reported once, by what opened the watch; from then on the engine polls without.
    if (this.#view.forbidden !== undefined) return
    yield (this.#shown = await read())
    while (!this.#signal.aborted) {
      await this.#nextNews()
      if (this.#signal.aborted) return
      if (this.#failure) throw this.#failure.error
      const news = this.#news
      this.#news = undefined
      const record = news ? this.#recordIn(news) : await read()
      const before = this.#shown
      this.#shown = record
      if (record?.version === before?.version || isRenewalElsewhere(before, record)) continue
      yield record
    }
  }

  seen(resource: MultiClusterLease | undefined, isEvent: boolean): void {
    // Events come in order. The answer to a request that comes between them would show a state of before.
    if (!resource || (!isEvent && this.#view.isLive)) return
    this.#news = resource
    this.#wake?.abort()
  }

  deleted(): void {}

  unwatched(error: unknown): void {
    this.#failure = { error }
    this.#wake?.abort()
  }

  end(): void {
    this.#wake?.abort()
    this.#view.remove(this)
  }

  async #nextNews(): Promise<void> {
    if (this.#news || this.#failure) return
    const wake = new AbortController()
    const onAbort = () => wake.abort()
    this.#wake = wake
    this.#signal.addEventListener('abort', onAbort, { once: true })
    await pause(this.#clock, silenceOf(this.#shown), wake.signal)
    this.#signal.removeEventListener('abort', onAbort)
    this.#wake = undefined
  }

  /** What the status says, where it says more than was shown. */
  #recordIn({ uid, status }: MultiClusterLease): LeaseRecord | undefined {
    if (status.record) {
      const record = relayedRecordOf(this.#election, status.record)
      this.#shownIn = uid
      // Seen late.
      return record.term < (this.#shown?.term ?? 0) ? this.#shown : record
    }
    // A resource that was created again has not seen the record yet; one that has shown it says that it is gone.
    return this.#shownIn === uid ? undefined : this.#shown
  }
}

/**
 * A renewal of another cluster comes into the status late, for example together with the answer to another candidate. A
 * standby that saw it would count the whole lease from that late moment. The controller has seen the renewal in time, and
 * tells standbys when to ask.
 */
function isRenewalElsewhere(before: LeaseRecord | undefined, after: LeaseRecord | undefined): boolean {
  if (!before || !after || before.released || after.released) return false
  return after.holder.includes('/') && before.attempt === after.attempt && before.term === after.term
}

function silenceOf(record: LeaseRecord | undefined): number {
  return record && !record.released ? Math.min(quietMs, record.leaseDurationMs * 2) : quietMs
}
