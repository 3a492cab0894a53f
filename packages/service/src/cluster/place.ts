import type { LocalGroups } from '../groups/local-groups.ts'

/** Who answers for the groups, as this replica knows it. */
export type Place =
  | { readonly kind: 'here'; readonly term: number; readonly groups: LocalGroups }
  | { readonly kind: 'elsewhere'; readonly term: number; readonly address: string; readonly replica: string }
  | { readonly kind: 'nowhere' }

export interface Places {
  /** The same object as long as nothing has changed. */
  now(): Place
  /** Resolves when `now()` gives another one than `known`, or `signal` aborts. */
  changed(known: Place, signal: AbortSignal): Promise<void>
}

/** Nobody is known to answer. */
export const nowhere: Place = { kind: 'nowhere' }

/** Whether both name the same term of the same replica. */
export function isSamePlace(one: Place, other: Place): boolean {
  if (one.kind === 'here') return other.kind === 'here' && one.groups === other.groups
  if (one.kind === 'nowhere') return other.kind === 'nowhere'
  return other.kind === 'elsewhere' && one.term === other.term && one.address === other.address
}
