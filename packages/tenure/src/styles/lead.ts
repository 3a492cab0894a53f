import { Elector, electorNames, type ElectorOptions } from '../elector.ts'
import { invalidOption, TenureError } from '../errors.ts'
import type { Leadership } from '../leadership.ts'
import { checkOneOf, checkSignal } from '../options.ts'
import { checkOptions, type OptionNames } from '../options/check-options.ts'

/** What {@link lead} takes besides what an elector does. */
export interface LeadOptions extends ElectorOptions {
  /** Ends the campaign: the work drains, the lease is released, and `lead` rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** What to do when leadership was lost before the work settled: campaign again (default), or reject. */
  readonly onLoss?: 'campaign' | 'throw' | undefined
}

const names: OptionNames<LeadOptions> = { ...electorNames, signal: true, onLoss: true }

type Settled<T> = { readonly value: T } | { readonly error: unknown }

/**
 * Runs work while leading, once in the whole fleet at a time. Resolves or rejects with the outcome of work that settled
 * while leading, after the lease was released. Work that settles after a loss is reported, and the campaign goes on.
 *
 * @example
 * await lead({ store: fileStore({ directory: './leases' }), election: 'nightly-report' }, async (leadership) => {
 *   await report({ signal: leadership.signal, fence: leadership.term })
 * })
 */
export async function lead<T>(options: LeadOptions, work: (leadership: Leadership) => Promise<T> | T): Promise<T> {
  checkOptions('lead()', options, names)
  const { signal, onLoss = 'campaign', ...electorOptions } = options
  if (typeof work !== 'function') throw invalidOption('work', work, 'it must be a function that takes the leadership')
  checkOneOf('onLoss', onLoss, ['campaign', 'throw'])
  checkSignal(signal)
  const elector = new Elector(electorOptions)
  if (!options.store.terms) {
    throw new TenureError(
      'TERMS_REQUIRED',
      `The store for "${options.election}" keeps no lasting terms, so late writes of a former leader could not be fenced off. Use another store, or an Elector if the work needs no fencing.`,
    )
  }
  signal?.throwIfAborted()
  elector.start({ signal })
  try {
    for (;;) {
      const leadership = await elector.waitForLeadership()
      // A listener may have stopped it at the moment of election, and its lease may be given back by now.
      if (!leadership.isLeader()) continue
      const run = supervise(leadership, work)
      // A stop settles even if the work never does.
      const outcome = await Promise.race([run, stopped(elector, leadership)])
      if (outcome && !outcome.lost) {
        await elector.stop()
        return unwrap(outcome.settled)
      }
      signal?.throwIfAborted()
      if (onLoss === 'throw') leadership.throwIfLost()
    }
  } catch (error) {
    await elector.stop()
    signal?.throwIfAborted()
    throw error
  } finally {
    await elector.stop()
  }
}

/** Starts the work and gives whether it settled in time. What it threw too late is reported by the elector. */
function supervise<T>(
  leadership: Leadership,
  work: (leadership: Leadership) => Promise<T> | T,
): Promise<{ settled: Settled<T>; lost: boolean }> {
  // Not before the elector knows of it: work that ends its own campaign at once must be waited for too.
  const run = Promise.resolve()
    .then(() => settle(async () => work(leadership)))
    .then((settled) => ({ settled, lost: !leadership.isLeader() }))
  leadership.waitUntil(
    run.then(({ settled, lost }) => {
      if (lost && 'error' in settled) throw settled.error
    }),
  )
  return run
}

async function settle<T>(work: () => Promise<T>): Promise<Settled<T>> {
  try {
    return { value: await work() }
  } catch (error) {
    return { error }
  }
}

/** Settles when the elector has stopped although this leadership's work has not settled. */
async function stopped(elector: Elector, { signal }: Leadership): Promise<undefined> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  // No next leadership comes before this one's work has settled, so while that runs only a stop ends this wait.
  await elector.waitForLeadership().catch(() => undefined)
  return undefined
}

function unwrap<T>(settled: Settled<T>): T {
  if ('error' in settled) throw settled.error
  return settled.value
}
