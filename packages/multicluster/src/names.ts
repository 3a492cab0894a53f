import { createHash } from 'node:crypto'
import { isLabel, isName, labelRule, longestNameBytes } from '@tenure/internal/names'
import { invalidOption } from 'tenure/options'
import type { ResourceKey } from 'tenure/stores/multicluster'

/** The election in the global store. It follows from what the API server's rights are about: namespace and name. */
export function globalElectionOf({ namespace, name }: ResourceKey): string {
  const election = `${namespace}/${name}`
  if (Buffer.byteLength(election) <= longestNameBytes) return election
  return `${namespace}/sha256:${createHash('sha256').update(name).digest('hex')}`
}

/** The holder in the global store: two pods of one name, each in its cluster, must not be one holder. */
export function globalHolderOf(cluster: string, identity: string): string {
  return `${cluster}/${identity}`
}

/** Whether an identity can be part of a global holder, and be distinguished from one. */
export function isIdentity(cluster: string, identity: unknown): identity is string {
  return (
    isName(identity) &&
    !identity.includes('/') &&
    Buffer.byteLength(globalHolderOf(cluster, identity)) <= longestNameBytes
  )
}

/** A global holder as one cluster shows it. */
export interface ShownHolder {
  readonly holder: string
  readonly cluster: string
}

/**
 * Who holds the lease, as `cluster` shows it: the bare identity for a candidate of its own, and for all others a form
 * that none of its identities can have. Otherwise two pods of one name would both read their own name as confirmed.
 */
export function shownHolderOf(holder: string, cluster: string): ShownHolder {
  const slash = holder.indexOf('/')
  const of = holder.slice(0, Math.max(0, slash))
  // An elector straight on the global store may have any identity.
  if (!isLabel(of)) return { holder: `/${holder}`.slice(0, longestNameBytes), cluster: '' }
  const identity = holder.slice(slash + 1)
  return { holder: of === cluster && isIdentity(cluster, identity) ? identity : holder, cluster: of }
}

/** Whether a candidate of this cluster holds it. */
export function isHeldIn(cluster: string, holder: string): boolean {
  return holder.startsWith(`${cluster}/`)
}

/**
 * A namespace or a cluster. The name of a cluster is a part of every holder, so no holder of one cluster may look like
 * another's.
 */
export function checkLabel(option: 'cluster' | 'namespace', value: unknown): asserts value is string {
  if (!isLabel(value)) throw invalidOption(option, value, `it must be a name of ${labelRule}`)
}
