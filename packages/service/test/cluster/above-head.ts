import type { LeaseStore } from 'tenure'
import type { Storage } from '../../src/storage/storage.ts'

/** A lease store that reports at least the term of the storage's head as the highest, and grants above it. */
export function aboveHead(leases: LeaseStore, storage: Pick<Storage, 'head'>): LeaseStore {
  return {
    ...leases,
    async acquire(claim, options) {
      const { term } = await storage.head()
      if (term <= claim.afterTerm) return leases.acquire(claim, options)
      const record = await leases.read(claim.election, options)
      return { ok: false, highestTerm: Math.max(term, record?.term ?? 0), ...(record && { record }) }
    },
  }
}
