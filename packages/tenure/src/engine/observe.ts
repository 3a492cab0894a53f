import { callWithin } from '@tenure/internal/bound'
import { callSafely } from '@tenure/internal/call-safely'
import { AsyncQueue } from '@tenure/internal/async-queue'
import { messageOf } from '@tenure/internal/message'
import { pause } from '@tenure/internal/pause'
import { systemClock, type Clock, type Timer } from '../common/clock.ts'
import { ElectionLog } from './election-log.ts'
import { fullName, invalidOption, TenureError } from '../common/errors.ts'
import type { CallOptions, LeaseStore } from './lease-store.ts'
import type { Log } from '../log/log.ts'
import { checkName } from '../common/names.ts'
import { ChangeDetector, type Change, type Observation } from './observation.ts'
import { checkClock, checkLog, checkSignal, checkStore } from './check-values.ts'
import { checkOptions, type OptionNames } from '../common/check-options.ts'
import { checkFound } from './store-calls.ts'

/** Options of {@link observe}. */
export interface ObserveOptions {
  /** Aborting it ends the observation. Leaving the loop ends it as well. */
  readonly signal?: AbortSignal | undefined
  /** Called for each failed call. The store is then asked again with increasing delays. */
  readonly onError?: ((error: unknown) => void) | undefined
  /** The timeout of one call. Default: 10 s. */
  readonly timeoutMs?: number | undefined
  /** How often to poll a store that cannot be watched. Default: 1 s. */
  readonly pollIntervalMs?: number | undefined
  readonly clock?: Clock | undefined
  /**
   * Where to log errors and recoveries, such as `console`. False disables logging. Default: standard error, unless
   * there is an `onError`.
   */
  readonly log?: Log | false | undefined
}

const names: OptionNames<ObserveOptions> = {
  signal: true,
  onError: true,
  timeoutMs: true,
  pollIntervalMs: true,
  clock: true,
  log: true,
}
const longestPauseMs = 10_000
/** A watch that lasted this long may be reopened immediately. */
const settledMs = 5_000
/** A watch may go silent, so the store is also read this often. */
const quietMs = 30_000
/** After a failed read, the next one follows within this time, even if the poll interval is longer. */
const soonMs = 1_000
/** A Node timer can fire early by this much. */
const earlyMs = 1
const queueLimit = 64

/**
 * Shows who leads an election, as it changes, without taking part. The first item is the current state. A store that
 * supports watches is watched, and any other store is polled. A lease expires here as it does for a candidate: one
 * version was observed for its whole duration on this process's own clock, and the store then shows no newer version.
 * So `expired` is never early. It may be late if the lease was first observed after it started and the store does not
 * report the time left. If the store does not answer, it is asked again for `timeoutMs`. After that the lease counts as
 * expired, and `renewed` follows if that was wrong.
 *
 * Errors do not end the observation. A slow reader misses changes but gets the newest state: at most 64 changes are
 * queued, and queued renewals are merged into one.
 *
 * @example
 * for await (const { record, change } of observe(store, 'payments', { signal })) {
 *   console.log(change, record?.holder)
 * }
 */
export function observe(
  store: LeaseStore,
  election: string,
  options: ObserveOptions = {},
): AsyncIterableIterator<Observation, undefined> {
  checkStore(store)
  checkName('election', election)
  checkOptions('observe()', options, names)
  const { signal, onError, timeoutMs = 10_000, pollIntervalMs = 1_000, clock = systemClock, log } = options
  checkSignal(signal)
  checkLog(log)
  checkClock(clock)
  if (onError !== undefined && typeof onError !== 'function') {
    throw invalidOption('onError', onError, 'it must be a function')
  }
  for (const [name, ms] of Object.entries({ timeoutMs, pollIntervalMs })) {
    const valid = typeof ms === 'number' && ms > 0 && ms < 2 ** 31
    if (!valid) throw invalidOption(name, ms, 'it must be a number of milliseconds above 0 and below 2^31')
  }
  if (!store.terms) {
    throw new TenureError(
      'TERMS_REQUIRED',
      `Election "${election}" cannot be observed, because its store does not keep terms. Use a store with durable terms.`,
    )
  }
  return new ElectionObserver({ store, election, signal, onError, timeoutMs, pollIntervalMs, clock, log })
}

interface ObserveSettings extends ObserveOptions {
  readonly store: LeaseStore
  readonly election: string
  readonly timeoutMs: number
  readonly pollIntervalMs: number
  readonly clock: Clock
}

class ElectionObserver implements AsyncIterableIterator<Observation, undefined> {
  readonly #settings: ObserveSettings
  readonly #log: ElectionLog
  readonly #sights = new ChangeDetector()
  readonly #end = new AbortController()
  readonly #stop = () => this.#finish()
  readonly #queue = new AsyncQueue<Observation>('all')
  #running = false
  #timer: Timer | undefined
  #askedMs = -Infinity
  #asking = false
  /** How many reads in a row have failed. */
  #unanswered = 0

  constructor(settings: ObserveSettings) {
    const { store, election, clock, log, onError } = settings
    this.#settings = settings
    const isObserved = onError !== undefined
    this.#log = new ElectionLog({ election, namespace: store.namespace }, { clock, log, isObserved, hasTerms: true })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<Observation, undefined>> {
    this.#begin()
    for (;;) {
      if (this.#end.signal.aborted) return { done: true, value: undefined }
      const value = this.#queue.take()
      if (value) return { done: false, value }
      await this.#queue.ready()
    }
  }

  async return(): Promise<IteratorResult<Observation, undefined>> {
    this.#finish()
    return { done: true, value: undefined }
  }

  #begin(): void {
    if (this.#running || this.#end.signal.aborted) return
    this.#running = true
    const { signal } = this.#settings
    if (signal?.aborted) return this.#finish()
    signal?.addEventListener('abort', this.#stop, { once: true })
    this.#log.open()
    void this.#run()
  }

  #finish(): void {
    this.#settings.signal?.removeEventListener('abort', this.#stop)
    this.#timer?.cancel()
    this.#queue.clear()
    this.#end.abort()
    this.#log.close()
    this.#queue.end()
  }

  async #run(): Promise<void> {
    const { clock, pollIntervalMs } = this.#settings
    const { signal } = this.#end
    let failures = 0
    let brokenWatches = 0
    let watchAtMs = -Infinity
    while (!signal.aborted) {
      failures = (await this.#look()) ? 0 : failures + 1
      const openedMs = clock.monotonicMs()
      if (failures === 0 && openedMs >= watchAtMs) {
        await this.#follow()
        const nowMs = clock.monotonicMs()
        brokenWatches = nowMs - openedMs < settledMs ? brokenWatches + 1 : 0
        watchAtMs = nowMs + pauseMs(pollIntervalMs, brokenWatches)
      }
      await pause(clock, pauseMs(pollIntervalMs, failures) * (1 + clock.random() / 5), this.#end.signal)
    }
  }

  /** Reads from the store. Returns false if the store did not answer. */
  async #look(): Promise<boolean> {
    const { store, election, clock, timeoutMs } = this.#settings
    const before = this.#sights.count
    this.#askedMs = clock.monotonicMs()
    try {
      const { record, remainingMs } = await this.#within(timeoutMs, async (call) =>
        store.look ? store.look(election, call) : { record: await store.read(election, call), remainingMs: undefined },
      )
      this.#unanswered = 0
      if (!this.#end.signal.aborted) this.#log.answered({ isWrite: false, isOk: true, isHeld: false })
      // A record that the watch showed after the read was sent may be newer than the answer to that read.
      const isNews = this.#sights.count === before && !this.#end.signal.aborted
      if (isNews) this.#tell(this.#sights.see(checkFound(record), clock.monotonicMs(), { remainingMs }))
      return true
    } catch (error) {
      this.#log.failed('read', error)
      this.#report(error)
      return false
    }
  }

  async #follow(): Promise<void> {
    const { store, election, clock } = this.#settings
    try {
      for await (const record of store.watch?.(election, { signal: this.#end.signal }) ?? []) {
        if (this.#end.signal.aborted) return
        this.#unanswered = 0
        this.#tell(this.#sights.see(checkFound(record), clock.monotonicMs(), { watched: true }))
      }
    } catch (error) {
      this.#report(error)
    }
  }

  /**
   * Asks the store before reporting that a lease expired, because a watch may be silent and the last poll may be old.
   * The answer counts only if the read was sent after the lease had expired. A store that fails is asked again for
   * `timeoutMs`.
   */
  async #askAgain(): Promise<void> {
    const { clock, timeoutMs } = this.#settings
    const sentMs = clock.monotonicMs()
    this.#asking = true
    const answered = await this.#look()
    this.#asking = false
    if (this.#end.signal.aborted) return
    if (!answered) this.#unanswered += 1
    this.#tell(this.#sights.expire(answered ? sentMs : clock.monotonicMs() - timeoutMs + earlyMs))
  }

  #tell(change: Change | undefined): void {
    const nowMs = this.#settings.clock.monotonicMs()
    if (change !== undefined) {
      if (change === 'renewed' && this.#queue.newest?.change === 'renewed') this.#queue.dropNewest()
      const isFull = this.#queue.size >= queueLimit
      if (isFull) this.#queue.clear()
      this.#queue.put(this.#sights.show(isFull ? 'state' : change, nowMs))
    }
    this.#arm()
  }

  #arm(): void {
    if (this.#end.signal.aborted || this.#asking) return
    this.#timer?.cancel()
    const { clock, pollIntervalMs, timeoutMs } = this.#settings
    const { dueMs } = this.#sights
    const nowMs = clock.monotonicMs()
    const againMs = nowMs + pauseMs(Math.min(pollIntervalMs, soonMs), this.#unanswered)
    const atMs = this.#unanswered > 0 ? Math.min(againMs, dueMs + timeoutMs) : Math.min(dueMs, this.#askedMs + quietMs)
    this.#timer = clock.setTimer(atMs - nowMs, () => void this.#askAgain())
  }

  #report(error: unknown): void {
    if (this.#end.signal.aborted) return
    const { onError, election } = this.#settings
    this.#log.event({ type: 'error', error })
    callSafely(
      () => onError?.(error),
      (cause) => {
        const text = `The onError callback of observe() for "${election}" failed: ${messageOf(cause)}`
        this.#log.listenerFailed(new TenureError('WORK_FAILED', text, { cause }))
      },
    )
  }

  /** Makes one call with a timeout, even if the store itself would wait longer. */
  #within<T>(timeoutMs: number, call: (options: CallOptions) => Promise<T>): Promise<T> {
    const { election, store, clock } = this.#settings
    const name = fullName({ election, namespace: store.namespace })
    const text = `The store did not answer "read" for "${name}" within ${Math.ceil(timeoutMs)} ms.`
    const late = () => new TenureError('TIMEOUT', text, { retryable: true })
    return callWithin(this.#end.signal, { clock, timeoutMs, late }, (signal) => call({ signal, timeoutMs }))
  }
}

function pauseMs(usualMs: number, failures: number): number {
  return failures === 0 ? usualMs : Math.min(Math.max(usualMs, longestPauseMs), usualMs * 2 ** (failures - 1))
}
