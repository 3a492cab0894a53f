import { CommandError, exitCodes } from './arguments/errors.ts'
import { printJson } from './output.ts'

/** How many elections to ask for at a time. */
export const pageSize = 999

export interface Page<Item> {
  readonly items: readonly Item[]
  readonly next: string | undefined
}

/** All items of a listing. With --json each page is printed as it comes, and nothing is kept. */
export async function everyPage<Item>(
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
    if (places.has(next)) throw new CommandError('The pages of the listing have no end.', exitCodes.unavailable)
    places.add(next)
    after = next
  }
}
