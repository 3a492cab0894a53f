/** How holders are named in the global store, and in the resources of each cluster. */
import { isLabel, isName, longestNameBytes } from '@tenure/internal/names'

/**
 * The holder in the global store. It includes the cluster, so that two pods of the same name in different clusters are
 * different holders.
 *
 * @example
 * globalHolderOf('east', 'pod-1') // 'east/pod-1'
 */
export function globalHolderOf(cluster: string, identity: string): string {
  return `${cluster}/${identity}`
}

/**
 * Whether an identity can be part of a global holder and be distinguished from one.
 *
 * @example
 * isIdentity('east', 'pod-1') // true
 * isIdentity('east', 'west/pod-1') // false
 */
export function isIdentity(cluster: string, identity: unknown): identity is string {
  return (
    isName(identity) &&
    !isGlobalHolder(identity) &&
    Buffer.byteLength(globalHolderOf(cluster, identity)) <= longestNameBytes
  )
}

/**
 * Whether a holder shown in a resource is something other than the bare identity of a candidate in this cluster: it
 * includes the name of its cluster, or did not come through a controller.
 */
export function isGlobalHolder(holder: string): boolean {
  return holder.includes('/')
}

/** A global holder as shown in one cluster. */
export interface DisplayedHolder {
  readonly holder: string
  /** Empty if the holder did not come through a controller. */
  readonly cluster: string
}

/**
 * The holder of a lease as shown in `cluster`: the bare identity for a candidate of that cluster, and for all others a
 * form that no identity can have. Otherwise two pods of the same name would both read their own name as confirmation.
 *
 * @example
 * displayedHolderOf('east/pod-1', 'east') // { holder: 'pod-1', cluster: 'east' }
 * displayedHolderOf('east/pod-1', 'west') // { holder: 'east/pod-1', cluster: 'east' }
 */
export function displayedHolderOf(holder: string, cluster: string): DisplayedHolder {
  const slash = holder.indexOf('/')
  const of = holder.slice(0, Math.max(0, slash))
  // An elector directly on the global store may have any identity.
  if (!isLabel(of)) return { holder: `/${holder}`.slice(0, longestNameBytes), cluster: '' }
  const identity = holder.slice(slash + 1)
  return { holder: of === cluster && isIdentity(cluster, identity) ? identity : holder, cluster: of }
}

/** The reverse of {@link displayedHolderOf}. */
export function globalHolderIn({ holder, cluster }: DisplayedHolder, ownCluster: string): string {
  if (cluster === ownCluster && !isGlobalHolder(holder)) return globalHolderOf(cluster, holder)
  return cluster === '' ? holder.slice(1) : holder
}

/**
 * A candidate that a candidate of `cluster` names, as it is in the global store. It names one of its own cluster by its
 * identity, and one of another cluster as `cluster/identity`. Undefined if no candidate can have this name.
 *
 * @example
 * globalNameOf('pod-2', 'east') // 'east/pod-2'
 * globalNameOf('west/pod-2', 'east') // 'west/pod-2'
 */
export function globalNameOf(name: unknown, cluster: string): string | undefined {
  if (isIdentity(cluster, name)) return globalHolderOf(cluster, name)
  if (typeof name !== 'string') return undefined
  const slash = name.indexOf('/')
  const of = name.slice(0, Math.max(0, slash))
  return isLabel(of) && isIdentity(of, name.slice(slash + 1)) ? name : undefined
}

/**
 * Whether the holder is a candidate of this cluster.
 *
 * @example
 * isHeldIn('east', 'east/pod-1') // true
 */
export function isHeldIn(cluster: string, holder: string): boolean {
  return holder.startsWith(`${cluster}/`)
}
