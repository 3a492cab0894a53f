import { Elector, electorNames, type ElectorOptions } from '../elector.ts'
import { invalidOption, TenureError } from '../errors.ts'
import type { Leadership } from '../leadership.ts'
import { checkBoolean, checkOneOf, checkSignal } from '../options.ts'
import { checkOptions, type OptionNames } from '../options/check-options.ts'
import { leadWith } from './lead-with.ts'

/** What {@link lead} takes besides what an elector does. */
export interface LeadOptions extends ElectorOptions {
  /** Ends the campaign: the work drains, the lease is released, and `lead` rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** What to do when leadership was lost before the work settled: campaign again (default), or reject. */
  readonly onLoss?: 'campaign' | 'throw' | undefined
  /**
   * Wait until it leads (default). If false, `lead` rejects with `BUSY` when somebody else leads: as soon as the store
   * says so or a renewal was seen, which may take up to one lease. A store that does not answer, or takes no write, for
   * one lease rejects with its error as `cause`. Then a loss rejects, too.
   */
  readonly wait?: boolean | undefined
}

const names: OptionNames<LeadOptions> = { ...electorNames, signal: true, onLoss: true, wait: true }

/**
 * Runs work while leading, once in the whole fleet at a time. Resolves or rejects with the outcome of work that settled
 * while leading, after the lease was released. Work that settles after a loss is reported, and the campaign goes on.
 * The next one that waits runs its work then: of three that call it, all three work, one after the other. For a job that
 * one of them is to do, see `tenure/jobs`.
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
  if (!options.store.terms) {
    throw new TenureError(
      'TERMS_REQUIRED',
      `The store for "${options.election}" keeps no lasting terms, so late writes of a former leader could not be fenced off. Use another store, or an Elector if the work needs no fencing.`,
    )
  }
  const course = wait ? { signal, onLoss } : { signal, onLoss: 'throw' as const, until: 'busy' as const }
  return leadWith(elector, course, work)
}
