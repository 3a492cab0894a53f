import { expect, test } from 'vitest'
import { OrderedIds } from '../../src/groups/ordered-ids.ts'

/** All ids, page by page. */
function pagesOf(ids: OrderedIds, size: number): string[] {
  const all: string[] = []
  for (let page = ids.after(undefined, size); page.length > 0; page = ids.after(all.at(-1), size)) all.push(...page)
  return all
}

test.each([1, 7, 5_000])(
  'ids are listed in order and once each in pages of %i, in whatever order they were added',
  (size) => {
    let seed = 11
    const chance = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below
    const ids = new OrderedIds()
    const known = new Set<string>()
    for (let count = 0; count < 4_000; count++) {
      // Add ids in order, from the end, at random, and repeatedly.
      const id = `g${[count, 9_000 - count, chance(9_000), chance(50)][count % 4]}`
      ids.add(id)
      known.add(id)
    }
    expect(pagesOf(ids, size)).toEqual([...known].sort())
  },
)

test('a page continues after an id that does not exist', () => {
  const ids = new OrderedIds()
  for (const id of ['b', 'd', 'f']) ids.add(id)
  expect(ids.after('a', 9)).toEqual(['b', 'd', 'f'])
  expect(ids.after('c', 9)).toEqual(['d', 'f'])
  expect(ids.after('f', 9)).toEqual([])
  expect(new OrderedIds().after('a', 9)).toEqual([])
})
