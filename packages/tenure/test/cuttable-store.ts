import type { LeaseStore } from '../src/index.ts'

/** A connection that can be cut, as a partition does: no call is answered until its signal aborts. It has no watch. */
export function cuttable(store: LeaseStore, line: { readonly isCut: boolean }): LeaseStore {
  const send = async <T>(signal: AbortSignal, transmit: () => Promise<T>): Promise<T> => {
    if (line.isCut) {
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
    }
    return transmit()
  }
  const { look, readsFirst, keepsTerms, checkpointLimitBytes } = store
  return {
    expiry: store.expiry,
    terms: store.terms,
    ...(readsFirst !== undefined && { readsFirst }),
    ...(keepsTerms !== undefined && { keepsTerms }),
    ...(checkpointLimitBytes !== undefined && { checkpointLimitBytes }),
    read: (election, call) => send(call.signal, () => store.read(election, call)),
    acquire: (claim, call) => send(call.signal, () => store.acquire(claim, call)),
    renew: (claim, call) => send(call.signal, () => store.renew(claim, call)),
    release: (claim, call) => send(call.signal, () => store.release(claim, call)),
    ...(look && { look: (election, call) => send(call.signal, () => look.call(store, election, call)) }),
  }
}
