import { readFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { expect, test } from 'vitest'
import { listFiles, root } from './source-files.ts'
import { findImports, findLeaks, findTimeAndChance, findUnchecked, type Finding } from './style-rules.ts'

const tracked = listFiles()
const sources = tracked.filter((path) => /^packages\/[^/]+\/src\/.*\.tsx?$/.test(path))
const library = sources.filter((path) => path.startsWith('packages/tenure/src/'))

const read = (path: string) => readFileSync(join(root, path), 'utf8')
const report = (paths: string[], look: (text: string, path?: string) => Finding[]) =>
  paths.flatMap((path) => look(read(path), path).map(({ line, what }) => `${path}:${line} ${what}`))

test('only clock.ts uses real time and randomness, in Node and in the browser', () => {
  const clocks = ['packages/internal/src/clock.ts', 'packages/page/src/browser/clock.ts']
  for (const clock of clocks) expect(report([clock], findTimeAndChance)).not.toEqual([])
  expect(
    report(
      sources.filter((path) => !clocks.includes(path)),
      findTimeAndChance,
    ),
  ).toEqual([])
})

test('no source file disables the type checker', () => {
  expect(report(sources, findUnchecked)).toEqual([])
})

test('no tracked file names a package host or a path of one machine', () => {
  expect(tracked).toContain('package-lock.json')
  expect(report(tracked, findLeaks)).toEqual([])
})

test('each style rule reports a deliberate violation', () => {
  const planted = (look: (text: string) => Finding[], text: string) => look(text).map(({ what }) => what)
  for (const text of [
    'const now = Date.now()',
    'const now = new Date()',
    'const at = performance.now()',
    'const at = process.hrtime.bigint()',
    'globalThis.setTimeout(f, 5)',
    'setInterval(f, 5)',
    'const n = Math.random()',
    'import { randomUUID } from "node:crypto"',
    'import { scheduler } from "node:timers/promises"',
    'const signal = AbortSignal.timeout(5)',
  ]) {
    expect(planted(findTimeAndChance, text), text).toHaveLength(1)
  }
  expect(planted(findTimeAndChance, '// Date.now() steps\nconst shown = new Date(wallMs)')).toEqual([])
  expect(planted(findUnchecked, 'let x: any\n// @ts-' + 'ignore\n// any text')).toEqual(['any', '@ts-' + 'ignore'])
  for (const folder of ['home', 'tmp', 'work']) expect(planted(findLeaks, `cd /${folder}/somebody`)).toHaveLength(1)
  for (const host of ['npm', 'registry']) {
    expect(planted(findLeaks, `"resolved": "https://${host}.example.com/x.tgz"`)).not.toEqual([])
  }
  expect(planted(findLeaks, 'https://example.com/home/page and /v1/groups')).toEqual([])
  expect(planted(findImports, 'import a from "a"\nexport * from "b"\nawait import("c")\nlet d: import("d").D')).toEqual(
    ['a', 'b', 'c', 'd'],
  )
})

/** The folders of each package, lowest first. Files directly in `src` are above all folders. */
const folders: Readonly<Record<string, readonly string[]>> = {
  tenure: [
    'common',
    'clients',
    'log',
    'engine',
    'store-kit',
    'kubernetes',
    'multicluster',
    'stores',
    'fencing',
    'shards',
    'telemetry',
    'api',
    'jobs',
    'guard',
    'internal',
  ],
  testing: ['fakes', 'conformance', 'simulation'],
  service: ['common', 'storage', 'groups', 'schemas', 'watch', 'replication', 'auth', 'operation', 'http'],
  cli: ['shared', 'run', 'commands'],
  multicluster: ['calls', 'status', 'relay', 'controller'],
  page: ['model', 'browser', 'server'],
}

/** The port and the algorithm are the safety argument, so each file there names all that it may import. */
const imports: Readonly<Record<string, readonly string[]>> = {
  'common/errors.ts': [],
  'engine/lease-store.ts': [],
  'engine/observed-expiry.ts': ['engine/lease-store.ts'],
  'engine/preference.ts': ['engine/lease-store.ts', 'engine/observed-expiry.ts'],
  'engine/election-state.ts': [
    'common/errors.ts',
    'engine/lease-store.ts',
    'engine/observed-expiry.ts',
    'engine/preference.ts',
    'engine/timings.ts',
  ],
  'engine/election.ts': [
    'common/errors.ts',
    'engine/election-state.ts',
    'engine/lease-store.ts',
    'engine/observed-expiry.ts',
    'engine/preference.ts',
    'engine/timings.ts',
  ],
}

/** Returns the imports of a file that violate the order of the folders. All paths are relative to `src`. */
function findUpward(file: string, targets: readonly string[], order: readonly string[]): string[] {
  const rankOf = (path: string) => {
    const [folder = '', ...rest] = path.split('/')
    if (rest.length === 0) return Infinity
    const rank = order.indexOf(folder)
    return rank < 0 ? Infinity : rank
  }
  const allowed = imports[file]
  return targets.filter((target) => rankOf(target) > rankOf(file) || allowed?.includes(target) === false)
}

test.each(Object.entries(folders))('files of the package %s import only from lower folders', (name, order) => {
  const source = `packages/${name}/src`
  const upward = sources
    .filter((path) => path.startsWith(`${source}/`))
    .flatMap((path) => {
      const targets = findImports(read(path))
        .filter(({ what }) => what.startsWith('.'))
        .map(({ what }) => relative(source, join(dirname(path), what)))
      return findUpward(relative(source, path), targets, order).map((target) => `${path} imports ${target}`)
    })
  expect(upward).toEqual([])
})

test('every folder of a layered package has its place in the order', () => {
  for (const [name, order] of Object.entries(folders)) {
    const found = sources.flatMap((path) => new RegExp(`^packages/${name}/src/([^/]+)/`).exec(path)?.[1] ?? [])
    expect([...new Set(found)].toSorted()).toEqual(order.toSorted())
  }
})

/** Names that occur more than once: those of files that differ by one "s", and of types. */
function findConfusable(files: readonly { readonly path: string; readonly text: string }[]): string[] {
  const names = files.map(({ path }) => basename(path).replace(/\.tsx?$/, ''))
  const plurals = names.filter((name) => names.includes(`${name}s`))
  const types = files.flatMap(({ text }) =>
    [...text.matchAll(/^(?:export )?(?:abstract )?(?:interface|type|class) (\w+)/gm)].map(([, name = '']) => name),
  )
  return [...plurals, ...types.filter((name, index) => types.indexOf(name) !== index)]
}

test.each(['tenure', 'service', 'cli', 'multicluster', 'testing', 'page'])(
  'no two files or types of the package %s have confusable names',
  (name) => {
    const files = sources.filter((path) => path.startsWith(`packages/${name}/src/`))
    expect(findConfusable(files.map((path) => ({ path, text: read(path) })))).toEqual([])
    const planted = [
      { path: 'a/request.ts', text: 'export interface Seen {\n}' },
      { path: 'b/requests.ts', text: 'type Seen = 1' },
    ]
    expect(findConfusable(planted)).toEqual(['request', 'Seen'])
  },
)

test('findUpward reports an import from a higher folder and one that the algorithm may not have', () => {
  const order = folders['tenure'] ?? []
  expect(findUpward('engine/elector.ts', ['common/errors.ts', 'stores/memory/index.ts'], order)).toEqual([
    'stores/memory/index.ts',
  ])
  expect(findUpward('engine/election.ts', ['engine/timings.ts', 'common/clock.ts'], order)).toEqual(['common/clock.ts'])
  expect(findUpward('api/lead.ts', ['index.ts'], order)).toEqual(['index.ts'])
  const service = folders['service'] ?? []
  expect(findUpward('groups/port.ts', ['storage/position.ts', 'watch/feed.ts'], service)).toEqual(['watch/feed.ts'])
  expect(findUpward('http/routes/watch.ts', ['http/app.ts', 'auth/access.ts', 'start.ts'], service)).toEqual([
    'start.ts',
  ])
})

test('the library depends only on Node', () => {
  const manifest = JSON.parse(read('packages/tenure/package.json'))
  const optional = Object.keys(manifest.optionalDependencies)
  expect(manifest.dependencies).toBeUndefined()
  const strangers = library.flatMap((path) =>
    findImports(read(path))
      .filter(
        ({ what, dynamic }) => !/^(\.|node:|@tenure\/internal\/)/.test(what) && !(dynamic && optional.includes(what)),
      )
      .map(({ what, line }) => `${path}:${line} ${what}`),
  )
  expect(strangers).toEqual([])
})
