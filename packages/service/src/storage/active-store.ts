import type { AcquireClaim, CallOptions, LeaseStore, Outcome } from 'tenure'
import type { Storage } from './storage.ts'

/** The name of the election of the active replica. */
export const activeElection = 'active'

/**
 * Returns the store in which the active replica is elected: leases on the same server as the storage. The highest term
 * it reports is at least the term of the storage's head. So if the lease keys are lost, or come back in an older
 * version, they elect nobody in a term that an active replica has already had. They also elect nobody immediately,
 * because a highest term without a record counts as held.
 *
 * The head's term may rise between reading it and the grant. Only a replica elected by the same leases raises it, and
 * the leases then refuse a lower term. If the leases are lost at that moment, the head itself refuses: a replica
 * becomes active by swapping the head to a strictly higher term.
 */
export function activeStore(leases: LeaseStore, storage: Pick<Storage, 'head'>): LeaseStore {
  async function acquire(claim: AcquireClaim, call: CallOptions): Promise<Outcome> {
    const { term } = await untilAborted(call.signal, storage.head())
    if (claim.afterTerm < term) {
      const record = await leases.read(claim.election, call)
      const highestTerm = Math.max(term, record?.term ?? 0)
      // If this repeats an earlier attempt, the head may already have the term of the attempt's own grant.
      if (record?.attempt !== claim.attempt) return { ok: false, ...(record && { record }), highestTerm }
    }
    const outcome = await leases.acquire(claim, call)
    return outcome.ok ? outcome : { ...outcome, highestTerm: Math.max(term, outcome.highestTerm) }
  }
  const { expiry, terms, namespace } = leases
  return {
    expiry,
    terms,
    ...(namespace !== undefined && { namespace }),
    acquire,
    read: (election, call) => leases.read(election, call),
    renew: (claim, call) => leases.renew(claim, call),
    release: (claim, call) => leases.release(claim, call),
    ...(leases.look && { look: leases.look.bind(leases) }),
    ...(leases.watch && { watch: leases.watch.bind(leases) }),
    ...(leases.list && { list: leases.list.bind(leases) }),
    ...(leases.examine && { examine: leases.examine.bind(leases) }),
    ...(leases.close && { close: leases.close.bind(leases) }),
  }
}

function untilAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason as Error)
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
