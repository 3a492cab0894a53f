import { AssertionError, deepStrictEqual, ok } from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import * as keyRanges from '../../src/storage/key-ranges.ts'

type Modules = typeof keyRanges

const first = 'place/group:'
const end = 'place/group;'
const limit = 20

const keysOf = (count: number, nameOf: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => first + encodeURIComponent(nameOf(index))).toSorted()

const hashOf = (index: number) => createHash('md5').update(String(index)).digest('hex')

const keySets = {
  none: [],
  numbered: keysOf(4_000, (index) => `group-${index}`),
  hashed: keysOf(4_000, hashOf),
  'in a few namespaces': keysOf(4_000, (index) => `team-${index % 3}/${'~'.repeat(index % 5)}${index}`),
}

/** Reads all keys, as etcd answers. `longest` is the number of keys in the largest range of a page. */
function loadAll(
  { KeyRanges }: Modules,
  keys: readonly string[],
  saved?: string,
  bounds: readonly [string, string] = [first, end],
) {
  const ranges = new KeyRanges(...bounds)
  const read: string[] = []
  let [longest, pages] = [0, 0]
  for (let range: keyRanges.ReadRange | undefined = ranges.begin(saved); range;) {
    const [from, to]: keyRanges.ReadRange = range
    ok(from < to, `the range from ${from} ends at ${to}`)
    const inRange = keys.filter((key) => key >= from && key < to)
    const page = inRange.slice(0, limit)
    longest = Math.max(longest, inRange.length)
    pages += 1
    read.push(...page)
    range = ranges.after(page, inRange.length > limit, to)
  }
  return { read, longest, pages, text: ranges.text }
}

const checks = {
  'a load reads every key once under a prefix that is not ASCII'(modules: Modules) {
    for (const prefix of ['té/group', 'é/group']) {
      const keys = keySets.numbered.map((key) => key.replace('place/group', prefix))
      deepStrictEqual(loadAll(modules, keys, undefined, [`${prefix}:`, `${prefix};`]).read, keys)
    }
  },
  'a load reads every key once, whatever was saved'(modules: Modules) {
    const saved = [undefined, '', 'no JSON', '{}', '[1, null, "", "é", "zz", "group-5", "group-5", "a", "7"]']
    const texts = Object.values(keySets).map((keys) => loadAll(modules, keys).text)
    for (const keys of Object.values(keySets)) {
      for (const text of [...saved, ...texts]) deepStrictEqual(loadAll(modules, keys, text).read, keys)
    }
  },
  'no range of a load is long if an earlier load has saved its pages'(modules: Modules) {
    for (const keys of Object.values(keySets).filter(({ length }) => length > 0)) {
      const before = loadAll(modules, keys)
      deepStrictEqual(before.longest, keys.length)
      const after = loadAll(modules, keys, before.text)
      ok(after.longest <= 6 * limit, `a range has ${after.longest} keys`)
      ok(after.pages <= before.pages * 1.5, `${after.pages} pages after ${before.pages}`)
    }
  },
  'a load saves a text of limited length'(modules: Modules) {
    const keys = keysOf(8_000, (index) => `${hashOf(index)}${'/'.repeat(1_000)}`)
    const { text = '' } = loadAll(modules, keys)
    ok(text.length > 100_000 && text.length <= 2 ** 18, `the text has ${text.length} characters`)
    ok(loadAll(modules, keys, text).longest < 2_000)
  },
  'a load of a few pages saves nothing'(modules: Modules) {
    deepStrictEqual(loadAll(modules, keySets.numbered.slice(0, 2 * limit)).text, undefined)
  },
}

test.each(Object.entries(checks))('%s', (_, check) => check(keyRanges))

const file = { package: 'service', file: 'storage/key-ranges.ts' } as const

/** The check named by `by` must catch the mutant. */
const mutants: readonly (Mutation & { readonly by: keyof typeof checks })[] = [
  {
    ...file,
    name: 'what an earlier load saved is ignored',
    find: 'this.#bounds = namesIn(saved)',
    replace: 'this.#bounds = namesIn(saved && undefined)',
    by: 'no range of a load is long if an earlier load has saved its pages',
  },
  {
    ...file,
    name: 'a load continues at the next bound, and leaves out the keys before it',
    find: 'return [end, this.#bounds.find((bound) => bound > end) ?? this.#widerEnd(end)]',
    replace: `const from = this.#bounds.find((bound) => bound > end) ?? end
    return [from, this.#widerEnd(from)]`,
    by: 'a load reads every key once, whatever was saved',
  },
  {
    ...file,
    name: 'a bound before the current range is used again',
    find: '(bound) => bound > end',
    replace: '(bound) => bound >= end',
    by: 'a load reads every key once, whatever was saved',
  },
  {
    ...file,
    name: 'a range with a bound becomes wider when a page of it was read',
    find: 'narrower < end ? narrower : end',
    replace: 'narrower',
    by: 'no range of a load is long if an earlier load has saved its pages',
  },
  {
    ...file,
    name: 'a text of any length is saved',
    find: 'if (text.length <= maxTextLength) return text',
    replace: 'if (text.length >= 0) return text',
    by: 'a load saves a text of limited length',
  },
]

test.each(mutants)('the checks find the mutant "$name"', async ({ by, ...mutation }) => {
  const { mutant } = await loadMutant<{ mutant: Modules }>(mutation, {
    mutant: '../../service/src/storage/key-ranges.ts',
  })
  expect(() => checks[by](mutant)).toThrow(AssertionError)
})
