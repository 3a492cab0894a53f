import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { expect, test } from 'vitest'
import { findImports, findLeaks, findTimeAndChance, findUnchecked, type Finding } from './style-rules.ts'

const root = join(import.meta.dirname, '..')
const tracked = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\0')
  .filter((path) => path !== '' && existsSync(join(root, path)))
const sources = tracked.filter((path) => /^packages\/[^/]+\/src\/.*\.ts$/.test(path))
const library = sources.filter((path) => path.startsWith('packages/tenure/src/'))

const read = (path: string) => readFileSync(join(root, path), 'utf8')
const report = (paths: string[], look: (text: string) => Finding[]) =>
  paths.flatMap((path) => look(read(path)).map(({ line, what }) => `${path}:${line} ${what}`))

test('real time and chance come from clock.ts alone', () => {
  expect(library).toContain('packages/tenure/src/clock.ts')
  expect(
    report(
      sources.filter((path) => !path.endsWith('/src/clock.ts')),
      findTimeAndChance,
    ),
  ).toEqual([])
})

test('the type checker is never told to look away', () => {
  expect(report(sources, findUnchecked)).toEqual([])
})

test('no tracked file names a package host or a path of one machine', () => {
  expect(tracked).toContain('package-lock.json')
  expect(report(tracked, findLeaks)).toEqual([])
})

test('each rule finds what was planted for it', () => {
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
// The first that fits a file counts. Paths are relative to the library's src.
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
    // The client and its Leases; only what users see of them knows styles and stores.
    of: /^kubernetes\/(?!index|leader-elector)/,
    not: /^(styles|fencing|simulation|testing|conformance)\/|^(election|election-state|elector|index)\.ts|^stores\/(?!rules|encode-name)/,
  },
  { of: /^styles\//, not: /^(kubernetes\/|simulation\/|testing\/|conformance\/|index\.ts)/ },
]

test('imports point down only', () => {
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

test('the library needs nothing but Node', () => {
  const manifest = JSON.parse(read('packages/tenure/package.json'))
  const optional = Object.keys(manifest.optionalDependencies)
  expect(manifest.dependencies).toBeUndefined()
  const strangers = library.flatMap((path) =>
    findImports(read(path))
      .filter(({ what, dynamic }) => !/^(\.|node:)/.test(what) && !(dynamic && optional.includes(what)))
      .map(({ what, line }) => `${path}:${line} ${what}`),
  )
  expect(strangers).toEqual([])
})
