import { Elector, electorNames, type ElectorOptions } from '../engine/elector.ts'
import { invalidOption } from '../common/errors.ts'
import type { Leadership } from '../engine/leadership.ts'
import { checkBoolean, checkOneOf, checkSignal } from '../engine/check-values.ts'
import { checkOptions, type OptionNames } from '../common/check-options.ts'
import { checkTerms, leadWith } from './lead-with.ts'

/** Options of {@link lead}, in addition to those of an elector. */
export interface LeadOptions extends ElectorOptions {
  /**
   * Aborting it ends the campaign: the work drains, the lease is released, and `lead` rejects with the signal's reason.
   */
  readonly signal?: AbortSignal | undefined
  /** What to do if leadership is lost before the work settles: campaign again (default), or reject. */
  readonly onLoss?: 'campaign' | 'throw' | undefined
  /**
   * Whether to wait until this process leads. Default: true. If false, `lead` rejects with `BUSY` when another process
   * leads. It does so at once if the store says so, or if the leader renewed within its lease by the wall clock, and
   * otherwise as soon as a renewal was observed. A wrong wall clock can only delay that answer or a takeover, by at most
   * one lease duration. If the store does not answer or accepts no write for one lease duration, `lead` rejects with the
   * store's error as `cause`. A loss rejects as well.
   */
  readonly wait?: boolean | undefined
}

const names: OptionNames<LeadOptions> = { ...electorNames, signal: true, onLoss: true, wait: true }

/**
 * Runs work while leading, in at most one process of the fleet at a time. Settles with the outcome of work that settled
 * while leading, after the lease was released. Work that settles after a loss is reported, and the campaign continues.
 * The next waiting process then runs its work: if three processes call `lead`, all three run their work, one after the
 * other. For a job that only one of them should run, see `tenure/jobs`.
 *
 * @example
 * await lead({ store: fileStore({ directory: './leases' }), election: 'nightly-report' }, async (leadership) => {
 *   await report({ signal: leadership.signal, fence: leadership.term })
 * })
 */
export async function lead<T>(options: LeadOptions, work: (leadership: Leadership) => Promise<T> | T): Promise<T> {
  checkOptions('lead()', options, names)
  const { signal, onLoss = 'campaign', wait = true, ...electorOptions } = options
  if (typeof work !== 'function') throw invalidOption('work', work, 'it must be a function that takes the leadership')
  checkOneOf('onLoss', onLoss, ['campaign', 'throw'])
  checkBoolean('wait', wait)
  checkSignal(signal)
  const elector = new Elector(electorOptions)
  checkTerms(elector, options.store)
  const course = wait ? { signal, onLoss } : { signal, onLoss: 'throw' as const, until: 'busy' as const }
  return leadWith(elector, course, work)
}
