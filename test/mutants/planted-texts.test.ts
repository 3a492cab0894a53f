import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { listFiles, root } from '../source-files.ts'
import type { Edit, Mutation } from './mutant.ts'

const packages = ['tenure', 'testing', 'service', 'multicluster', 'cli', 'internal']

function isMutation(value: unknown): value is Mutation {
  if (typeof value !== 'object' || value === null) return false
  return ['name', 'file', 'find', 'replace'].every((field) => typeof Reflect.get(value, field) === 'string')
}

/** Whether the text of an edit occurs exactly once in its file. A list does not say which package it is planted in. */
function isPlantable(edit: Edit): boolean {
  return (edit.package ? [edit.package] : packages).some((name) => {
    const path = join(root, 'packages', name, 'src', edit.file)
    return existsSync(path) && readFileSync(path, 'utf8').split(edit.find).length === 2
  })
}

/** Returns the mutants of every list in the repository. */
async function allMutants(): Promise<Mutation[]> {
  const paths = listFiles().filter((path) => /(?:^|\/)test\/.*mutants\.ts$/.test(path))
  const lists = await Promise.all(paths.map((path) => import(join(root, path)) as Promise<Record<string, unknown>>))
  return lists.flatMap((list) =>
    Object.values(list).flatMap((value: unknown) => (Array.isArray(value) ? value.filter(isMutation) : [])),
  )
}

test('every mutant finds its text exactly once, so a renamed file or a reworded line is noticed at once', async () => {
  const mutants = await allMutants()
  expect(mutants.length).toBeGreaterThan(300)
  const lost = mutants.flatMap(({ name, also = [], ...edit }) =>
    [edit, ...also].filter((one) => !isPlantable(one)).map(({ file, find }) => ({ name, file, find })),
  )
  expect(lost).toEqual([])
})
