import { checkOptions, type OptionNames } from '../common/check-options.ts'
import { fullName, invalidOption, isTenureError, TenureError } from '../common/errors.ts'
import { checkName } from '../common/names.ts'
import { checkSignal, checkStore } from '../engine/check-values.ts'
import { Elector, type ElectorOptions } from '../engine/elector.ts'
import type { LeaseStore } from '../engine/lease-store.ts'
import { checkDuration, timingsOf } from '../engine/timings.ts'
import { checkTerms, leadWith } from './lead-with.ts'

/** Options of {@link withLock}. */
export interface LockOptions extends Pick<
  ElectorOptions,
  'identity' | 'leaseDurationMs' | 'clock' | 'observer' | 'log'
> {
  /**
   * Aborting it ends the wait. While the lock is held, it aborts the signal of the work, and the lock is released once
   * the work has settled. In both cases `withLock` rejects with the signal's reason.
   */
  readonly signal?: AbortSignal | undefined
  /**
   * How long to wait while another process holds the lock. 0 tries once, and Infinity waits without a limit. The wait
   * takes up to one lease duration longer if only that shows whether the holder has crashed, or if the store does not
   * answer. Default: two lease durations, 30 s, which is longer than the lease of a crashed holder.
   */
  readonly waitMs?: number | undefined
}

/** What {@link withLock} passes to its work. */
export interface HeldLock {
  /** The fencing token: it rises with every holder of this lock. Send it with each write. */
  readonly term: number
  /** Aborts when the lock is lost. It follows the clock, so it aborts even when the store does not answer. */
  readonly signal: AbortSignal
}

const names: OptionNames<LockOptions> = {
  identity: true,
  leaseDurationMs: true,
  clock: true,
  observer: true,
  log: true,
  signal: true,
  waitMs: true,
}

/**
 * A distributed lock, or mutex: runs work in at most one process at a time, and returns its result after the lock was
 * released. Rejects with `LOCK_TIMEOUT` if another process still holds the lock after `waitMs`, without having called
 * the work. If the lock is lost during the work, the signal aborts, and `withLock` rejects with `LEADERSHIP_LOST` once
 * the work has settled. It is `lead` with a limited wait, so the lock is the election of the same name. It is not
 * reentrant: work that asks for its own lock waits for itself. Those who wait are not served in order.
 *
 * @example
 * await withLock(store, 'import', async ({ term, signal }) => {
 *   await importFiles({ fence: term, signal })
 * }, { waitMs: 30_000 })
 */
export async function withLock<T>(
  store: LeaseStore,
  name: string,
  work: (lock: HeldLock) => Promise<T> | T,
  options: LockOptions = {},
): Promise<T> {
  checkStore(store)
  checkName('name', name)
  if (typeof work !== 'function') throw invalidOption('work', work, 'it must be a function that takes the lock')
  checkOptions('withLock()', options, names)
  const { signal, waitMs = 2 * timingsOf(options).leaseDurationMs, ...electorOptions } = options
  if (waitMs !== Infinity) checkDuration('waitMs', waitMs)
  checkSignal(signal)
  const elector = new Elector({ ...electorOptions, store, election: name })
  checkTerms(elector, store)
  let hasBegun = false
  try {
    return await leadWith(elector, { signal, onLoss: 'throw', until: 'busy', waitMs }, (leadership) => {
      hasBegun = true
      return work({ term: leadership.term, signal: leadership.signal })
    })
  } catch (error) {
    // The work may throw an error with the same code because something else is busy.
    if (hasBegun || !isTenureError(error) || error.code !== 'BUSY') throw error
    throw lockTimeout(elector, waitMs, error)
  }
}

function lockTimeout(elector: Elector, waitMs: number, cause: TenureError): TenureError {
  const record = elector.leader()
  const holder = record ? `"${record.holder}" holds it in term ${record.term}` : 'another process holds it'
  const when = waitMs > 0 ? `within ${waitMs} ms` : 'at once, and waitMs is 0'
  const text = `The lock "${fullName(elector)}" was not obtained ${when}: ${holder}. Try again, or wait longer.`
  return new TenureError('LOCK_TIMEOUT', text, { retryable: true, cause })
}
