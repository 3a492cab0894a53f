import type { LocalGroups } from '../groups/local-groups.ts'

/** Who answers for the groups, as this replica knows it. */
export type Place =
  | { readonly kind: 'here'; readonly term: number; readonly groups: LocalGroups }
  | { readonly kind: 'elsewhere'; readonly term: number; readonly address: string; readonly replica: string }
  | { readonly kind: 'nowhere' }

export interface Places {
  now(): Place
  /** Resolves when `now()` gives another one than `known`, or `signal` aborts. */
  changed(known: Place, signal: AbortSignal): Promise<void>
}
