import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { filesInCycles, importsOf, type Import } from './import-graph.ts'
import { listFiles, root } from './source-files.ts'

/** The packages that each package may import. */
const below: Readonly<Record<string, readonly string[]>> = {
  internal: [],
  page: ['internal'],
  tenure: ['internal'],
  testing: ['internal', 'tenure'],
  service: ['internal', 'page', 'tenure'],
  multicluster: ['internal', 'tenure'],
  cli: ['internal', 'page', 'tenure', 'service', 'multicluster'],
}
const packages = Object.keys(below)
const packageOf = (path: string) => path.split('/')[1] ?? ''
const sources = listFiles('packages').filter((path) => /^packages\/[^/]+\/src\/.*\.tsx?$/.test(path))
const graph = new Map(sources.map((path) => [path, importsOf(path)]))

/** Whether an import names a package that is not on a lower layer, or bypasses the package's entry points. */
function isUpwards(path: string, { file, package: name }: Import): boolean {
  const own = packageOf(path)
  if (name === undefined) return file !== undefined && !file.startsWith(`packages/${own}/src/`)
  return !below[own]?.includes(name)
}

const upwards = (path: string, imports: readonly Import[]) =>
  imports.filter((one) => isUpwards(path, one)).map(({ line, what }) => `${path}:${line} imports ${what}`)

/** The imports that are loaded together with a file, without dynamic imports. */
const valueImports = (imports: readonly Import[]) =>
  imports.flatMap(({ file, erased, dynamic }) => (file === undefined || erased || dynamic ? [] : [file]))

test('packages import only packages below them: internal, then page and tenure, then testing, service and multicluster, then cli', () => {
  expect([...new Set(sources.map(packageOf))].toSorted()).toEqual(packages.toSorted())
  expect([...graph].flatMap(([path, imports]) => upwards(path, imports))).toEqual([])
})

/** Bundled into the other packages and never published. */
const unpublished = ['internal', 'page']

test('the dependencies of a package are the packages that it may import, without private ones', () => {
  for (const name of packages) {
    const manifest = JSON.parse(readFileSync(join(root, 'packages', name, 'package.json'), 'utf8'))
    const own = [
      ...Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies, ...manifest.peerDependencies }),
      ...Object.keys({ ...manifest.devDependencies }),
    ].flatMap((each) => (each === 'tenure' ? each : /^@tenure\/(.+)$/.exec(each)?.[1]) ?? [])
    expect(own.toSorted(), name).toEqual((below[name] ?? []).filter((each) => !unpublished.includes(each)).toSorted())
    expect(manifest.private ?? false, name).toBe(unpublished.includes(name))
  }
})

test('no import of a value is part of a cycle', () => {
  const values = new Map([...graph].map(([path, imports]) => [path, valueImports(imports)]))
  const missing = [...values.values()].flat().filter((file) => !values.has(file))
  expect(missing).toEqual([])
  expect([...values.values()].flat().length).toBeGreaterThan(800)
  expect(filesInCycles(values)).toEqual([])
})

test('each import rule reports a deliberate violation', () => {
  const planted = (path: string, text: string) => upwards(path, importsOf(path, text))
  const library = 'packages/tenure/src/engine/elector.ts'
  expect(planted(library, `import { a } from '@tenure/service'`)).toEqual([`${library}:1 imports @tenure/service`])
  expect(planted(library, `import type { A } from '../../service/src/state.ts'`)).toHaveLength(1)
  expect(planted(library, `import { fakeClock } from '@tenure/testing'`)).toHaveLength(1)
  expect(planted('packages/internal/src/clock.ts', `export type { Clock } from 'tenure'`)).toHaveLength(1)
  expect(planted('packages/service/src/start.ts', `await import('@tenure/multicluster')`)).toHaveLength(1)
  expect(planted('packages/cli/src/main.ts', `import '@tenure/service'\nimport 'tenure/stores/file'`)).toEqual([])
  expect(planted(library, `import { b } from '@tenure/internal/message'\nimport 'node:fs'`)).toEqual([])
  const cycle = (edges: Record<string, readonly string[]>) => filesInCycles(new Map(Object.entries(edges)))
  expect(cycle({ a: ['b', 'c'], b: ['c'], c: [] })).toEqual([])
  expect(cycle({ a: ['b'], b: ['c'], c: ['d', 'b'], d: [] })).toEqual(['b', 'c'])
  expect(cycle({ a: ['a'] })).toEqual(['a'])
  expect(valueImports(importsOf(library, `import type { A } from './a.ts'\nimport { b } from './b.ts'`))).toEqual([
    'packages/tenure/src/engine/b.ts',
  ])
  expect(valueImports(importsOf(library, `await import('./a.ts')`))).toEqual([])
})
