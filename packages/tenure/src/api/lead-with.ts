import { fullName, TenureError } from '../common/errors.ts'
import type { Elector, StartOptions } from '../engine/elector.ts'
import type { Leadership } from '../engine/leadership.ts'
import type { LeaseRecord, LeaseStore } from '../engine/lease-store.ts'

/** Options of a campaign, and how to treat a loss. */
export interface LeadPlan<T> extends StartOptions {
  readonly onLoss: 'campaign' | 'throw'
  /**
   * Returns a result if another process's record makes leading unnecessary. The campaign then stops and returns that
   * result.
   */
  readonly answerOf?: ((record: LeaseRecord) => T | undefined) | undefined
  /**
   * Whether the result of the work counts even if leadership ended in the meantime. Set it only for work that checks
   * its leadership itself.
   */
  readonly trustsWork?: boolean | undefined
}

type Settled<T> = { readonly value: T } | { readonly error: unknown }

/** Refuses a store without terms, because nothing could fence off the late writes of a former leader. */
export function checkTerms(elector: Elector, { terms }: LeaseStore): void {
  if (terms) return
  throw new TenureError(
    'TERMS_REQUIRED',
    `The store for "${fullName(elector)}" does not keep terms, so late writes by a former leader cannot be fenced off. Use another store, or an Elector if the work needs no fencing.`,
  )
}

/** Runs work while an elector leads. Starts the elector, and stops it before this settles. */
export async function leadWith<T>(
  elector: Elector,
  { signal, until, waitMs, onLoss, answerOf, trustsWork }: LeadPlan<T>,
  work: (leadership: Leadership) => Promise<T> | T,
): Promise<T> {
  signal?.throwIfAborted()
  let answer: { readonly value: T } | undefined
  let ledTerm = 0
  elector.onStep = () => {
    if (!answerOf || answer || elector.isLeader()) return
    const record = elector.leader()
    // A record of this elector's own term cannot come from another process.
    const value = record && record.term > ledTerm ? answerOf(record) : undefined
    if (value === undefined) return
    answer = { value }
    void elector.stop()
  }
  elector.start({ signal, until, waitMs })
  try {
    for (;;) {
      const leadership = await elector.waitForLeadership()
      ledTerm = leadership.term
      if (!leadership.isLeader()) {
        // A listener has stopped the elector, and its lease may already be released, or this process was stalled.
        if (onLoss === 'throw' && !signal?.aborted) leadership.throwIfLost()
        continue
      }
      const run = supervise(leadership, work)
      // A stop settles even if the work never settles.
      const outcome = await Promise.race([run, untilStopped(elector, leadership)])
      if (outcome && (!outcome.lost || (trustsWork && 'value' in outcome.settled))) {
        await elector.stop()
        return unwrap(outcome.settled)
      }
      signal?.throwIfAborted()
      if (onLoss === 'throw') leadership.throwIfLost()
    }
  } catch (error) {
    await elector.stop()
    signal?.throwIfAborted()
    if (answer) return answer.value
    throw error
  } finally {
    await elector.stop()
  }
}

/**
 * Starts the work and resolves with its result and whether leadership was lost. If the work throws after a loss, the
 * elector reports the error.
 */
function supervise<T>(
  leadership: Leadership,
  work: (leadership: Leadership) => Promise<T> | T,
): Promise<{ settled: Settled<T>; lost: boolean }> {
  // Start the work only after it is registered, so that work that immediately ends its own campaign is also awaited.
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

/** Settles when the elector has stopped before this leadership's work has settled. */
export async function untilStopped(elector: Elector, { signal }: Leadership): Promise<undefined> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  // The next leadership starts only after this one's work has settled. So while the work runs, only a stop ends this
  // wait.
  await elector.waitForLeadership().catch(() => undefined)
  return undefined
}

function unwrap<T>(settled: Settled<T>): T {
  if ('error' in settled) throw settled.error
  return settled.value
}
