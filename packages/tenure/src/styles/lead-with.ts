import type { Elector, StartOptions } from '../elector.ts'
import type { Leadership } from '../leadership.ts'
import type { LeaseRecord } from '../lease-store.ts'

/** How work is led. */
export interface Course<T> {
  readonly signal?: AbortSignal | undefined
  readonly until?: StartOptions['until']
  readonly onLoss: 'campaign' | 'throw'
  /** What a record of somebody else says in place of leading: then nothing is led. */
  readonly answerOf?: ((record: LeaseRecord) => T | undefined) | undefined
  /** What the work gives counts even if leadership ended meanwhile: the work itself has looked. */
  readonly trustsWork?: boolean | undefined
}

type Settled<T> = { readonly value: T } | { readonly error: unknown }

/** Runs work while an elector leads. The elector is started here, and stopped when this settles. */
export async function leadWith<T>(
  elector: Elector,
  { signal, until, onLoss, answerOf, trustsWork }: Course<T>,
  work: (leadership: Leadership) => Promise<T> | T,
): Promise<T> {
  signal?.throwIfAborted()
  let answer: { readonly value: T } | undefined
  let ledTerm = 0
  elector.onStep = () => {
    if (!answerOf || answer || elector.isLeader()) return
    const record = elector.leader()
    // Its own record says what it has done itself.
    const value = record && record.term > ledTerm ? answerOf(record) : undefined
    if (value === undefined) return
    answer = { value }
    void elector.stop()
  }
  elector.start({ signal, until })
  try {
    for (;;) {
      const leadership = await elector.waitForLeadership()
      ledTerm = leadership.term
      // A listener may have stopped it at the moment of election, and its lease may be given back by now.
      if (!leadership.isLeader()) continue
      const run = supervise(leadership, work)
      // A stop settles even if the work never does.
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
export async function untilStopped(elector: Elector, { signal }: Leadership): Promise<undefined> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  // No next leadership comes before this one's work has settled, so while that runs only a stop ends this wait.
  await elector.waitForLeadership().catch(() => undefined)
  return undefined
}

function unwrap<T>(settled: Settled<T>): T {
  if ('error' in settled) throw settled.error
  return settled.value
}
