import { createHash } from 'node:crypto'
import { isLabel, isName, labelRule, longestNameBytes } from '@tenure/internal/names'
import { invalidOption } from 'tenure/options'
import type { ResourceKey } from 'tenure/stores/multicluster'

/**
 * The election in the global store. It is derived from the namespace and the name, because the API server's permissions
 * apply to those.
 */
export function globalElectionOf({ namespace, name }: ResourceKey): string {
  const election = `${namespace}/${name}`
  if (Buffer.byteLength(election) <= longestNameBytes) return election
  return `${namespace}/sha256:${createHash('sha256').update(name).digest('hex')}`
}

/**
 * The holder in the global store. It includes the cluster, so that two pods of the same name in different clusters are
 * different holders.
 */
export function globalHolderOf(cluster: string, identity: string): string {
  return `${cluster}/${identity}`
}

/** Whether an identity can be part of a global holder and be distinguished from one. */
export function isIdentity(cluster: string, identity: unknown): identity is string {
  return (
    isName(identity) &&
    !identity.includes('/') &&
    Buffer.byteLength(globalHolderOf(cluster, identity)) <= longestNameBytes
  )
}

/** A global holder as one cluster shows it. */
export interface DisplayedHolder {
  readonly holder: string
  readonly cluster: string
}

/**
 * The holder of a lease as `cluster` shows it: the bare identity for a candidate of this cluster, and for all others a
 * form that no identity can have. Otherwise two pods of the same name would both read their own name as confirmation.
 */
export function displayedHolderOf(holder: string, cluster: string): DisplayedHolder {
  const slash = holder.indexOf('/')
  const of = holder.slice(0, Math.max(0, slash))
  // An elector directly on the global store may have any identity.
  if (!isLabel(of)) return { holder: `/${holder}`.slice(0, longestNameBytes), cluster: '' }
  const identity = holder.slice(slash + 1)
  return { holder: of === cluster && isIdentity(cluster, identity) ? identity : holder, cluster: of }
}

/** Whether the holder is a candidate of this cluster. */
export function isHeldIn(cluster: string, holder: string): boolean {
  return holder.startsWith(`${cluster}/`)
}

/**
 * Checks the name of a namespace or a cluster. The cluster name is part of every holder, so no holder of one cluster
 * may look like one of another.
 */
export function checkLabel(option: 'cluster' | 'namespace', value: unknown): asserts value is string {
  if (!isLabel(value)) throw invalidOption(option, value, `it must be a name of ${labelRule}`)
}
