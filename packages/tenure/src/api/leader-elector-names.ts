/** Determines the election and the identity of a LeaderElector. */
import { invalidOption } from '../common/errors.ts'
import type { LeaseStore } from '../engine/lease-store.ts'
import { checkName } from '../common/names.ts'

const longestLease = 255

/** A store whose leases are objects that other programs know by name. */
interface NamingStore extends LeaseStore {
  checkLeaseName?(option: string, name: string): void
}

/** The election's name in this store. */
export function electionOf(store: NamingStore, leaseName: unknown, leaseNamespace: unknown): string {
  checkName('leaseName', leaseName)
  checkName('leaseNamespace', leaseNamespace)
  store.checkLeaseName?.('leaseName', leaseName)
  if (store.namespace !== undefined) {
    if (store.namespace === leaseNamespace) return leaseName
    throw invalidOption('leaseNamespace', leaseNamespace, `the store keeps its leases in "${store.namespace}"`)
  }
  // The first slash separates the namespace from the name, so that no two leases share an election.
  if (leaseNamespace.includes('/')) throw invalidOption('leaseNamespace', leaseNamespace, 'it must not contain a slash')
  if (Buffer.byteLength(leaseName + leaseNamespace) <= longestLease) return `${leaseNamespace}/${leaseName}`
  throw invalidOption('leaseName', leaseName, `with leaseNamespace it must be at most ${longestLease} bytes in UTF-8`)
}

/** Rejects a missing identity. Each candidate, usually a pod, needs a unique one. */
export function checkIdentity(identity: unknown): asserts identity is string {
  if (identity === undefined || identity === '') {
    const rule = 'each candidate needs a unique name: in a pod, use POD_NAME, set by the downward API (metadata.name)'
    throw invalidOption('identity', identity, rule)
  }
  checkName('identity', identity)
}
