import { join, relative } from 'node:path'
import { expect, test } from 'vitest'
import { importsOf } from './import-graph.ts'

/**
 * Returns everything that a program loads with a module, or may load later: files of the library and names of packages.
 */
function importGraph(entry: string): { readonly files: Set<string>; readonly packages: Set<string> } {
  const files = new Set<string>()
  const packages = new Set<string>()
  const visit = (path: string) => {
    if (files.has(path)) return
    files.add(path)
    for (const { what, file, erased } of importsOf(path)) {
      if (file !== undefined) visit(file)
      else if (!erased) packages.add(what)
    }
  }
  visit(entry)
  return { files, packages }
}

const library = 'packages/tenure'
const strangers = ({ packages }: { readonly packages: Set<string> }) =>
  [...packages].filter((name) => !name.startsWith('node:'))

test('the multi-cluster lock imports only Node and this library, as source and as built code', () => {
  for (const entry of ['src/stores/multicluster/index.ts', 'dist/stores/multicluster/index.js']) {
    const graph = importGraph(join(library, entry))
    expect(graph.files.size).toBeGreaterThan(3)
    expect(strangers(graph), entry).toEqual([])
  }
})

test('the multi-cluster lock imports no other store', () => {
  const { files } = importGraph(join(library, 'src/stores/multicluster/index.ts'))
  const others = [...files]
    .map((path) => relative(join(library, 'src'), path))
    .filter((path) =>
      /^(clients\/etcd\/|stores\/(azure-blob|consul|etcd|mysql|postgres|redis|file|service|gcs|dynamodb|s3|sqlite|kubernetes)\b)/.test(
        path,
      ),
    )
  expect(others).toEqual([])
})

test('an import of a client library is detected wherever it is', () => {
  expect(strangers(importGraph('test/bench.server.test.ts'))).toContain('vitest')
  expect([...importGraph(join(library, 'src/stores/index.ts')).files].join('\n')).toContain('stores/etcd/index.ts')
})
