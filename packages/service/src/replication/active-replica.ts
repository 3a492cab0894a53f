import type { LocalGroups } from '../groups/local-groups.ts'

/**
 * The active replica, which answers for the groups, as far as this replica knows: this one, another one, or unknown.
 */
export type ActiveReplica =
  | { readonly kind: 'here'; readonly term: number; readonly groups: LocalGroups }
  | { readonly kind: 'elsewhere'; readonly term: number; readonly address: string; readonly replica: string }
  | { readonly kind: 'nowhere' }

export interface ActiveReplicas {
  /** Returns the same object as long as nothing has changed. */
  now(): ActiveReplica
  /** Resolves when `now()` differs from `known`, or when `signal` aborts. */
  changed(known: ActiveReplica, signal: AbortSignal): Promise<void>
}

/** No active replica is known. */
export const nowhere: ActiveReplica = { kind: 'nowhere' }

/** Returns whether both are the same term of the same replica. */
export function isSameReplica(one: ActiveReplica, other: ActiveReplica): boolean {
  if (one.kind === 'here') return other.kind === 'here' && one.groups === other.groups
  if (one.kind === 'nowhere') return other.kind === 'nowhere'
  return other.kind === 'elsewhere' && one.term === other.term && one.address === other.address
}
