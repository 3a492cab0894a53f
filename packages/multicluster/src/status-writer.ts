import { pause } from '@tenure/internal/pause'
import type { MultiClusterLease, StatusPatch } from 'tenure/stores/multicluster'
import { pauseMs } from './pending-call.ts'
import { report, withTimeout, type Shared } from './relay-context.ts'

/** What a writer needs from the resource whose status it writes. */
export interface Written {
  current(): MultiClusterLease | undefined
  /** Computes the patch. Called again before each try, because time has passed. */
  judge(resource: MultiClusterLease): StatusPatch | undefined
  /** The timeout of one write. */
  boundMs(): number
  /**
   * Takes over a resource that was read or written. `isCurrent` is true if nothing was observed since the call was
   * sent. An older version then comes from a restored backup. Otherwise the answer may merely be late.
   */
  adopt(found: MultiClusterLease, isCurrent: boolean): void
  /** Called when the known resource no longer exists. */
  lose(): void
  onWritten(before: MultiClusterLease, after: MultiClusterLease): void
}

const mostConflicts = 3

/**
 * Writes the status of one resource, one write at a time. Changes that accumulate during a write are written together.
 */
export class StatusWriter {
  readonly #shared: Shared
  readonly #of: Written
  #busy = false
  #again = false
  #failures = 0
  #stopped = new AbortController()

  constructor(shared: Shared, of: Written) {
    this.#shared = shared
    this.#of = of
  }

  /** Starts a write, or schedules another one if a write is in flight. */
  run(isUrgent: boolean): void {
    if (this.#busy) this.#again = true
    else void this.#loop(isUrgent)
  }

  stop(): void {
    this.#stopped.abort()
  }

  async #loop(isUrgent: boolean): Promise<void> {
    const { clock, observer } = this.#shared
    this.#busy = true
    do {
      this.#again = false
      try {
        await this.#settle(isUrgent)
        this.#failures = 0
      } catch (error) {
        if (this.#stopped.signal.aborted) break
        this.#failures += 1
        report(() => observer.onError?.(error, 'writing a status'))
        this.#again = true
        await pause(clock, pauseMs(this.#failures, clock), this.#stopped.signal)
        // The failed write may have been applied.
        await this.#read().catch(() => undefined)
      }
    } while (this.#again && !this.#stopped.signal.aborted)
    this.#busy = false
  }

  /**
   * Writes the status over the version for which it was computed. After several conflicts it writes only the answers,
   * without a version, because ids bind them to their requests.
   */
  async #settle(isUrgent: boolean): Promise<void> {
    for (let conflicts = 0; ; conflicts += 1) {
      const isForced = conflicts >= mostConflicts
      const done = await this.#shared.writes.run(isUrgent, this.#stopped.signal, () => this.#write(isForced))
      if (done === 'nothing' || (done === 'written' && !isForced)) return
      if (done === 'written') conflicts = -1
      else if (!(await this.#read())) return
      if (conflicts >= 2 * mostConflicts) throw new Error('The resource changes faster than its status can be written.')
    }
  }

  async #write(isForced: boolean): Promise<'nothing' | 'written' | 'conflict'> {
    const { resources, clock, observer } = this.#shared
    const before = this.#of.current()
    const judged = before && this.#of.judge(before)
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
   * Whether the known resource is still the one that the call was about. The watch may have shown a new resource of the
   * same name while the call was in flight. A late answer must not replace it, because nothing would show the new one
   * again until it changes.
   */
  #isKnown({ uid }: MultiClusterLease): boolean {
    return this.#of.current()?.uid === uid
  }

  /** Makes a call that ends when the writer stops. */
  async #bounded<T>(timeoutMs: number, work: Parameters<typeof withTimeout<T>>[3]): Promise<T> {
    const controller = new AbortController()
    const { signal } = this.#stopped
    const onStop = () => controller.abort(signal.reason)
    if (signal.aborted) onStop()
    signal.addEventListener('abort', onStop, { once: true })
    try {
      return await withTimeout(this.#shared.clock, timeoutMs, controller, work)
    } finally {
      signal.removeEventListener('abort', onStop)
    }
  }
}

const readMs = 5_000
