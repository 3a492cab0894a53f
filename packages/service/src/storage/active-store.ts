import type { AcquireClaim, CallOptions, LeaseStore, Outcome } from 'tenure'
import type { Storage } from './storage.ts'

/** What the active replica is elected in. */
export const activeElection = 'active'

/**
 * Where the active replica is elected: leases of the same server as the storage. The highest term is at least that of the
 * storage's head. So a lease whose keys were lost, or are older than they were, elects nobody in a term that an active
 * replica has had, and nobody at once: a highest term without a record counts as held.
 *
 * The head may rise between the look at it and the grant. Only somebody who was elected by the same leases raises it, and
 * they then refuse a lower term. Where they are lost in that very moment, the head itself refuses: a replica becomes active
 * by swapping it to a term that is strictly higher.
 */
export function activeStore(leases: LeaseStore, storage: Pick<Storage, 'head'>): LeaseStore {
  async function acquire(claim: AcquireClaim, call: CallOptions): Promise<Outcome> {
    const { term } = await untilAborted(call.signal, storage.head())
    if (claim.afterTerm < term) {
      const record = await leases.read(claim.election, call)
      const highestTerm = Math.max(term, record?.term ?? 0)
      // The same attempt again: the head may have the term of its own grant by now.
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
