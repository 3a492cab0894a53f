import type { LocalGroups } from '../groups/local-groups.ts'

/** This replica is active. */
export interface LocalReplica {
  readonly kind: 'local'
  readonly term: number
  readonly groups: LocalGroups
}

/** Another replica is active. */
export interface RemoteReplica {
  readonly kind: 'remote'
  readonly term: number
  readonly address: string
  readonly replica: string
}

/** The active replica, which answers for the groups, as known to this replica. */
export type ActiveReplica = LocalReplica | RemoteReplica | { readonly kind: 'unknown' }

export interface ActiveReplicaSource {
  /** Returns the same object as long as nothing has changed. */
  now(): ActiveReplica
  /** Resolves when `now()` differs from `known`, or when `signal` aborts. */
  changed(known: ActiveReplica, signal: AbortSignal): Promise<void>
}

/** No active replica is known. */
export const unknownReplica: ActiveReplica = { kind: 'unknown' }

/** Returns whether both values name the same term of the same replica. */
export function isSameActiveTerm(one: ActiveReplica, other: ActiveReplica): boolean {
  if (one.kind === 'local') return other.kind === 'local' && one.groups === other.groups
  if (one.kind === 'unknown') return other.kind === 'unknown'
  return other.kind === 'remote' && one.term === other.term && one.address === other.address
}
