import { readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
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

const tools = ['simulation/', 'testing/', 'conformance/']
// The first entry that matches a file counts. Paths are relative to the library's src.
const layers: { readonly of: RegExp; readonly knows?: RegExp; readonly not?: RegExp }[] = [
  { of: /^(errors|lease-store)\.ts$/, knows: /^$/ },
  { of: /^election(-state)?\.ts$/, knows: /^(lease-store|errors|timings|election-state)\.ts$/ },
  { of: /^http\//, knows: /^((clock|errors)\.ts$|http\/)/ },
  { of: /^elector\.ts$/, not: /^(styles|stores|kubernetes|fencing|simulation|testing|conformance)\// },
  {
    of: /^stores\//,
    not: /^(styles\/|(election|election-state|elector)\.ts|fencing\/|simulation\/|testing\/|conformance\/|index\.ts)/,
  },
  {
    // The client, its credentials, and its Leases. Only the entry point imports styles and stores.
    of: /^kubernetes\/(?!index)/,
    not: /^(styles|fencing|simulation|testing|conformance)\/|^(election|election-state|elector|index)\.ts|^stores\/(?!rules|encode-name)/,
  },
  {
    // The lock and its resources, on which a store and a controller are built.
    of: /^multicluster\//,
    not: /^(styles|fencing|simulation|testing|conformance)\/|^(election|election-state|elector|index)\.ts|^stores\/(?!plain|record|watches)/,
  },
  {
    // Only a client, which can be used without the store.
    of: /^etcd\//,
    knows: /^((clock|errors|lease-store|names)\.ts$|http\/|etcd\/)/,
  },
  {
    // Jobs are built on an elector. From the stores they import only the loader of user packages.
    of: /^jobs\//,
    not: /^(kubernetes|multicluster|etcd|http|fencing|simulation|testing|conformance)\/|^(election|election-state|index)\.ts|^stores\/(?!driver)/,
  },
  { of: /^styles\//, not: /^(kubernetes\/index|jobs\/|simulation\/|testing\/|conformance\/|index\.ts)/ },
]

test('files of the library import only from lower layers', () => {
  const upwards = library.flatMap((path) => {
    const file = relative('packages/tenure/src', path)
    const layer = layers.find(({ of }) => of.test(file))
    const isTool = tools.some((tool) => file.startsWith(tool))
    return findImports(read(path))
      .filter(({ what }) => what.startsWith('.'))
      .map(({ what, line }) => ({ line, target: relative('packages/tenure/src', join(dirname(path), what)) }))
      .filter(
        ({ target }) =>
          layer?.not?.test(target) ||
          layer?.knows?.test(target) === false ||
          (!isTool && tools.some((tool) => target.startsWith(tool))),
      )
      .map(({ target, line }) => `${path}:${line} imports ${target}`)
  })
  expect(upwards).toEqual([])
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
