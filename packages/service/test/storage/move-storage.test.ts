import { AssertionError } from 'node:assert'
import { expect, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import { restoreData } from '../../src/storage/backup.ts'
import { moveStorage } from '../../src/storage/move-storage.ts'
import { read } from './data.ts'
import { moveChecks } from './move-checks.ts'
import { directoryPlace } from './move-places.ts'

test.each(moveChecks)('$name', ({ run }) => run(directoryPlace(), directoryPlace(), moveStorage))

test('data that were moved are given back to those who say that there are no newer ones', async () => {
  const [from, to] = [directoryPlace(), directoryPlace()]
  await (await from.serve()).close()
  const source = await from.source(to.name)
  await source.retire(to.name)
  await source.close()
  await expect(from.serve()).rejects.toThrow(/it was moved to/)
  await restoreData({ data: from.directory })
  const storage = await from.serve()
  expect((await storage.head()).restores).toBe(1)
  expect(await read(storage)).toEqual([])
  await storage.close()
})

const move = { package: 'service', file: 'storage/move-storage.ts' } as const
const anywhere = 'wherever a move ends, never both are served, and running it again completes it'

/** Each must be noticed by the check that is named for it. */
const mutations: readonly (Mutation & { readonly by: string })[] = [
  {
    ...move,
    name: 'mark the source when all is there',
    find: '  await source.retire(target.name)\n',
    replace: '',
    also: [
      {
        file: move.file,
        find: 'await target.finish(head)',
        replace: 'await target.finish(head)\n  await source.retire(target.name)',
      },
    ],
    by: anywhere,
  },
  {
    ...move,
    name: 'never mark the source',
    find: '  await source.retire(target.name)\n',
    replace: '',
    by: 'every group, its seq and all of the head are there after a move, and the source is not served any more',
  },
  {
    ...move,
    name: 'complete the target before the groups are there',
    find: "if (state === 'empty') await target.begin(head)",
    replace: "if (state === 'empty') await target.begin(head)\n  await target.finish(head)",
    by: anywhere,
  },
]

test.each(mutations)('a move with the mistake "$name" is found out', async ({ by, ...mutation }) => {
  const mutant = await loadMutant<{ move: typeof import('../../src/storage/move-storage.ts') }>(mutation, {
    move: '../../service/src/storage/move-storage.ts',
  })
  const check = moveChecks.find(({ name }) => name === by)
  expect(check, by).toBeDefined()
  await expect(check?.run(directoryPlace(), directoryPlace(), mutant.move.moveStorage)).rejects.toThrow(AssertionError)
})
