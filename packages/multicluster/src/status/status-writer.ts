import { pause } from '@tenure/internal/pause'
import type { MultiClusterLease, StatusPatch } from 'tenure/internal/multicluster'
import { pauseMs } from '../calls/pending-call.ts'
import { report, withTimeout, type SharedRelay } from '../calls/relay-context.ts'

/** The functions of the resource's relay that a writer needs. */
export interface StatusTarget {
  current(): MultiClusterLease | undefined
  /** Computes the patch. Called again before each try, because time has passed. */
  judge(resource: MultiClusterLease): StatusPatch | undefined
  /** The timeout of one write. */
  boundMs(): number
  /**
   * Takes over a resource that was read or written. `isCurrent` is true if nothing was observed since the call was
   * sent. In that case, an older version comes from a restored backup. Otherwise the answer may merely be late.
   */
  adopt(found: MultiClusterLease, isCurrent: boolean): void
  /** Called when the known resource no longer exists. */
  lose(): void
  onWritten(before: MultiClusterLease, after: MultiClusterLease): void
  /** Called when nothing is being written anymore, because more may be due by then. */
  onIdle(): void
}

const mostConflicts = 3

/** Writes the status of one resource, one write at a time. */
export class StatusWriter {
  readonly #shared: SharedRelay
  readonly #of: StatusTarget
  #isBusy = false
  #failures = 0
  #stopped = new AbortController()

  constructor(shared: SharedRelay, of: StatusTarget) {
    this.#shared = shared
    this.#of = of
  }

  /** Whether a write is in flight. Changes that accumulate meanwhile are written together, after `onIdle`. */
  get isBusy(): boolean {
    return this.#isBusy
  }

  /** Starts a write of this patch, which the caller has just computed. Must not be called while a write is in flight. */
  run(patch: StatusPatch, isUrgent: boolean): void {
    void this.#loop(patch, isUrgent)
  }

  stop(): void {
    this.#stopped.abort()
  }

  async #loop(patch: StatusPatch, isUrgent: boolean): Promise<void> {
    const { clock, observer } = this.#shared
    this.#isBusy = true
    for (let fresh: StatusPatch | undefined = patch; !this.#stopped.signal.aborted; fresh = undefined) {
      try {
        await this.#settle(fresh, isUrgent)
        this.#failures = 0
        break
      } catch (error) {
        if (this.#stopped.signal.aborted) break
        this.#failures += 1
        report(() => observer.onError?.(error, 'writing a status'))
        await pause(clock, pauseMs(this.#failures, clock), this.#stopped.signal)
        // The failed write may have been applied.
        await this.#read().catch(() => undefined)
      }
    }
    this.#isBusy = false
    this.#of.onIdle()
  }

  /**
   * Writes the status over the version for which it was computed. After several conflicts it writes only the answers,
   * without a version, because ids bind them to their requests. A patch that is still current is not computed again.
   */
  async #settle(fresh: StatusPatch | undefined, isUrgent: boolean): Promise<void> {
    for (let conflicts = 0, patch = fresh; ; conflicts += 1, patch = undefined) {
      const isForced = conflicts >= mostConflicts
      const done = await this.#shared.writes.run(isUrgent, this.#stopped.signal, (hasWaited) =>
        this.#write(isForced, hasWaited ? undefined : patch),
      )
      if (done === 'nothing' || (done === 'written' && !isForced)) return
      if (done === 'written') conflicts = -1
      else if (!(await this.#read())) return
      if (conflicts >= 2 * mostConflicts) throw new Error('The resource changes faster than its status can be written.')
    }
  }

  async #write(isForced: boolean, fresh: StatusPatch | undefined): Promise<'nothing' | 'written' | 'conflict'> {
    const { resources, clock, observer } = this.#shared
    const before = this.#of.current()
    const judged = fresh ?? (before && this.#of.judge(before))
    const patch = isForced && judged?.answers ? { answers: judged.answers } : judged
    if (!before || !patch) return 'nothing'
    const { namespace, name, uid, resourceVersion } = before
    const over = patch === judged ? resourceVersion : undefined
    const startedAtMs = clock.monotonicMs()
    const after = await this.#bounded(this.#of.boundMs(), (call) =>
      resources.patchStatus({ namespace, name, uid }, patch, over, call),
    )
    if (!after) {
      report(() => observer.onConflict?.({ namespace, name }))
      return 'conflict'
    }
    const durationMs = clock.monotonicMs() - startedAtMs
    const answers = Object.values(patch.answers ?? {}).filter((answer) => answer !== null).length
    report(() => observer.onWritten?.({ namespace, name, answers, durationMs }))
    if (this.#isKnown(before)) this.#of.adopt(after, false)
    this.#of.onWritten(before, after)
    return 'written'
  }

  /** Reads the resource. Returns whether it still exists. */
  async #read(): Promise<boolean> {
    const before = this.#of.current()
    if (!before) return false
    const { namespace, name, uid } = before
    const found = await this.#bounded(readMs, (call) => this.#shared.resources.get({ namespace, name }, call))
    const isCurrent = this.#of.current() === before
    if (found?.uid !== uid) {
      if (isCurrent) this.#of.lose()
      return false
    }
    if (this.#isKnown(before)) this.#of.adopt(found, isCurrent)
    return true
  }

  /**
   * Whether the known resource is still the one that the call was made for. The watch may have shown a new resource of
   * the same name while the call was in flight. A late answer must not replace it, because nothing would show the new
   * one again until it changes.
   */
  #isKnown({ uid }: MultiClusterLease): boolean {
    return this.#of.current()?.uid === uid
  }

  /** Makes a call that ends when the writer stops. */
  #bounded<T>(timeoutMs: number, work: Parameters<typeof withTimeout<T>>[3]): Promise<T> {
    return withTimeout(this.#shared.clock, timeoutMs, this.#stopped.signal, work)
  }
}

const readMs = 5_000
