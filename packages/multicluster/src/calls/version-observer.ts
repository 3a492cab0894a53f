import type { LeaseRecord } from 'tenure'
import {
  expiredVersionOf,
  expiresAtMs,
  isHeldIn,
  leftMs,
  nothingObserved,
  observeRecord,
  versionOf,
  type ObservedVersions,
  type ResourceKey,
  type Showing,
} from 'tenure/internal/multicluster'
import { newPendingCall, pauseMs, putOff, type PendingRequest } from './pending-call.ts'
import { callGlobal } from './global-call.ts'
import { report, type SharedRelay } from './relay-context.ts'
import { afterDeletion } from './relayed-acquire.ts'

/** The timeout of one read. */
const lookMs = 5_000
/**
 * The shortest interval between reads. Reads cost money, and a candidate that asks for a lease of one millisecond must
 * not cause thousands of them.
 */
const shortestPaceMs = 100

/**
 * Observes one election while a candidate of this cluster is alive, through the store's watch if it has one, otherwise
 * by polling.
 */
export class VersionObserver {
  readonly #shared: SharedRelay
  readonly #about: ResourceKey & { readonly election: string }
  readonly #onChange: () => void
  seen: ObservedVersions = nothingObserved
  /** When the store itself last answered. */
  #answeredAtMs = -Infinity
  /** The version that expired by this relay's observation and that a later read still found. */
  #goneVersion: string | undefined
  #watch: AbortController | undefined
  #watchFailures = 0
  #watchAgainAtMs = 0
  #look: PendingRequest | undefined
  #absentForMs = 0

  constructor(shared: SharedRelay, about: ResourceKey & { readonly election: string }, onChange: () => void) {
    this.#shared = shared
    this.#about = about
    this.#onChange = onChange
  }

  /** Whether the current version has expired by this relay's observation and still exists. */
  get hasExpired(): boolean {
    const { view } = this.seen
    return view !== undefined && this.#goneVersion === versionOf(view)
  }

  /** Whether this is the version that was observed last, so that noting it again would change nothing. */
  isKnown({ version, released }: Pick<LeaseRecord, 'version' | 'released'>, highestTerm = 0): boolean {
    const record = this.seen.view?.record
    return record?.version === version && record.released === released && highestTerm <= this.seen.highestTerm
  }

  /**
   * Records an answer from the store. Call it when the answer arrives, not earlier. The caller handles the change.
   */
  noteAnswer(
    record: LeaseRecord | undefined,
    { absentForMs = this.#absentForMs, highestTerm }: { absentForMs?: number; highestTerm?: number | undefined } = {},
  ): void {
    const nowMs = this.#nowMs()
    this.#answeredAtMs = nowMs
    this.#note({ record, watched: false, ownDurationMs: absentForMs, highestTerm })
    const gone = this.#shared.store.expiry === 'observed' ? expiredVersionOf(this.seen, nowMs) : undefined
    if (gone !== undefined && record) this.#goneVersion = gone
  }

  /**
   * Records a watch event, or a status that another relay has written. It may describe the past, but terms only rise.
   */
  noteEvent(record: LeaseRecord | undefined, highestTerm?: number): void {
    const before = this.seen
    this.#note({ record, watched: true, ownDurationMs: this.#absentForMs, highestTerm })
    if (this.seen !== before) this.#onChange()
  }

  /** Records a status that has a term but no record. */
  noteDeleted(highestTerm: number, statusDurationMs: number): void {
    const before = this.seen
    const shown = { highestTerm, statusDurationMs, ownDurationMs: this.#absentForMs, nowMs: this.#nowMs() }
    this.seen = afterDeletion(before, shown)
    if (this.seen.view !== before.view || this.seen.highestTerm !== before.highestTerm) this.#onChange()
  }

  /**
   * Performs the reads that are due, and returns when to call again. `leaseMs` is the lease duration of the live
   * candidates, or undefined if there are none.
   */
  advance(leaseMs: number | undefined): number {
    if (leaseMs === undefined) {
      this.stop()
      return Infinity
    }
    this.#absentForMs = leaseMs
    const nowMs = this.#nowMs()
    // A lease held in this cluster is visible through its renewals.
    const isFollowed = !this.#isHeldHere(nowMs)
    if (!isFollowed) this.#endWatch()
    else if (this.#shared.store.watch && !this.#watch && nowMs >= this.#watchAgainAtMs) void this.#follow()
    const dueMs = this.#lookDueMs(nowMs, leaseMs, isFollowed)
    if (this.#look?.state === 'running') return Infinity
    const isWatchDue = isFollowed && this.#shared.store.watch !== undefined && !this.#watch
    if (nowMs < dueMs) return Math.min(dueMs, isWatchDue ? this.#watchAgainAtMs : Infinity)
    void this.#lookOnce(nowMs)
    return Infinity
  }

  stop(): void {
    this.#endWatch()
    this.#look?.controller?.abort(new DOMException('The caller no longer waits for this call.', 'AbortError'))
    this.#look = undefined
  }

  #nowMs(): number {
    return this.#shared.clock.monotonicMs()
  }

  #note(showing: Omit<Showing, 'nowMs'>): void {
    this.seen = observeRecord(this.seen, { ...showing, nowMs: this.#nowMs() })
  }

  #isHeldHere(nowMs: number): boolean {
    const record = this.seen.view?.record
    if (!record || record.released || !isHeldIn(this.#shared.cluster, record.holder)) return false
    return (leftMs(this.seen, nowMs) ?? 0) > 0
  }

  #lookDueMs(nowMs: number, leaseMs: number, isFollowed: boolean): number {
    const { view } = this.seen
    const endMs = view ? expiresAtMs(view) : Infinity
    const holdsMs = view?.holdsForMs ?? leaseMs
    // Read slightly later than the expiry, because waiting candidates ask at that moment.
    const isOpen = view?.record && !view.record.released && !this.hasExpired
    const endDueMs = isOpen ? endMs + Math.min(1_000, holdsMs / 10) : Infinity
    const isTold = this.#watch !== undefined || !isFollowed
    const paceMs = Math.max(shortestPaceMs, holdsMs / 5)
    const lookDueMs = isTold ? Infinity : Math.max(this.#answeredAtMs, nowMs - paceMs) + paceMs
    return Math.max(Math.min(endDueMs, lookDueMs), this.#look?.tryAtMs ?? 0)
  }

  async #lookOnce(nowMs: number): Promise<void> {
    const look = (this.#look ??= newPendingCall(nowMs, Infinity, undefined))
    const controller = new AbortController()
    look.state = 'running'
    look.controller = controller
    try {
      const bound = { controller, timeoutMs: lookMs, isLook: true }
      const { found } = (await callGlobal(this.#shared, this.#about, { verb: 'read' }, bound)) as { found: LeaseRecord }
      if (this.#look !== look) return
      this.#look = undefined
      this.noteAnswer(found)
    } catch {
      if (this.#look === look) putOff(look, this.#nowMs(), this.#shared.clock)
    }
    this.#onChange()
  }

  async #follow(): Promise<void> {
    const { store, clock, observer } = this.#shared
    const controller = new AbortController()
    this.#watch = controller
    try {
      for await (const record of store.watch?.(this.#about.election, { signal: controller.signal }) ?? []) {
        if (controller.signal.aborted) return
        this.#watchFailures = 0
        this.noteEvent(record)
      }
    } catch (error) {
      if (!controller.signal.aborted) report(() => observer.onError?.(error, 'watching the global store'))
    }
    if (controller.signal.aborted) return
    this.#watch = undefined
    this.#watchFailures += 1
    this.#watchAgainAtMs = this.#nowMs() + pauseMs(this.#watchFailures, clock)
    this.#onChange()
  }

  #endWatch(): void {
    this.#watch?.abort()
    this.#watch = undefined
  }
}
