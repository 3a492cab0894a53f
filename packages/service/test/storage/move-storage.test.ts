import { AssertionError } from 'node:assert'
import { expect, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import { restoreData } from '../../src/storage/backup.ts'
import { moveStorage } from '../../src/storage/move-storage.ts'
import { read } from './data-directories.ts'
import { moveChecks } from './move-checks.ts'
import { directoryPlace } from './move-places.ts'

test.each(moveChecks)('$name', ({ run }) => run(directoryPlace(), directoryPlace(), moveStorage))

test('moved data can be used again after a restore', async () => {
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
const anywhere =
  'source and target are never both served, wherever a move ends, and running the move again completes it'

/** The check named by `by` must catch the mutant. */
const mutations: readonly (Mutation & { readonly by: string })[] = [
  {
    ...move,
    name: 'the source is marked only after everything is transferred',
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
    name: 'the source is never marked',
    find: '  await source.retire(target.name)\n',
    replace: '',
    by: 'a move transfers every group, its seq, and the whole head, and the source is no longer served',
  },
  {
    ...move,
    name: 'the target is completed before the groups are transferred',
    find: "if (state === 'empty') await target.begin(head)",
    replace: "if (state === 'empty') await target.begin(head)\n  await target.finish(head)",
    by: anywhere,
  },
]

test.each(mutations)('the checks of moves catch the mutant "$name"', async ({ by, ...mutation }) => {
  const mutant = await loadMutant<{ move: typeof import('../../src/storage/move-storage.ts') }>(mutation, {
    move: '../../service/src/storage/move-storage.ts',
  })
  const check = moveChecks.find(({ name }) => name === by)
  expect(check, by).toBeDefined()
  await expect(check?.run(directoryPlace(), directoryPlace(), mutant.move.moveStorage)).rejects.toThrow(AssertionError)
})
