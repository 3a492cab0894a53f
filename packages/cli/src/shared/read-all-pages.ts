import { CommandError, exitCodes } from './arguments/errors.ts'
import { printJson } from './output.ts'

/** How many elections to request at a time. */
export const pageSize = 999

export interface Page<Item> {
  readonly items: readonly Item[]
  readonly next: string | undefined
}

/** Returns all items of a listing. With --json, prints each page as it arrives instead of collecting the items. */
export async function readAllPages<Item>(
  { json }: { readonly json: boolean },
  pageAfter: (after: string | undefined) => Promise<Page<Item>>,
): Promise<Item[]> {
  const all: Item[] = []
  const places = new Set<string>()
  for (let after: string | undefined; ;) {
    const { items, next } = await pageAfter(after)
    if (json) items.forEach(printJson)
    else all.push(...items)
    if (next === undefined) return all
    if (places.has(next))
      throw new CommandError('The server repeats the same page of the listing.', exitCodes.unavailable)
    places.add(next)
    after = next
  }
}
