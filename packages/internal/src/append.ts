/**
 * Returns the list with an item added, and without its oldest items beyond the limit. Spreading an array into another
 * one reserves room for 16 more items, and ten thousand electors would keep that memory. `concat` reserves none.
 */
export function append<T>(list: readonly T[], item: T, limit: number): T[] {
  return list.slice(1 - limit).concat([item])
}
