import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { listFiles, root } from './source-files.ts'
import { findImports, findLongWaits, findPrograms } from './style-rules.ts'

type Read = (path: string) => string

const files = listFiles()
const readFile: Read = (path) => readFileSync(join(root, path), 'utf8')

const parsed = new Map<string, ReturnType<typeof findImports>>()

/** Cached, because many tests import the same helpers. */
function importsOf(text: string): ReturnType<typeof findImports> {
  const imports = parsed.get(text) ?? findImports(text)
  parsed.set(text, imports)
  return imports
}

/** Returns the tier in the name of a test, which says what the test needs. */
function tierOf(path: string): string {
  return /\.(process|slow|server|proof|proof-sample)\.test\.ts$/.exec(path)?.[1] ?? 'quick'
}

/** Returns every test file and every Node module that a test imports, each with the path of imports to it. */
function reachedBy(test: string, read: Read): Map<string, string> {
  const reached = new Map([[test, test]])
  for (const [path, way] of reached) {
    if (path.startsWith('node:')) continue
    for (const { what, erased } of importsOf(read(path))) {
      const target = what.startsWith('.') ? join(dirname(path), what) : what
      const counts = target.startsWith('node:') || /(^|\/)test\/.*\.ts$/.test(target)
      if (counts && !erased && !reached.has(target)) reached.set(target, `${way} > ${target}`)
    }
  }
  return reached
}

// Programs that come with Node, or that every system has on which Node can build a package.
const everywhere = ['npm', 'sh', 'tar']

/** Returns the actions of a test that belong in another tier. */
function findMisplaced(path: string, read: Read = readFile): string[] {
  const tier = tierOf(path)
  if (tier === 'server') return []
  const reached = [...reachedBy(path, read)]
  const by = (forbidden: RegExp) => reached.filter(([target]) => forbidden.test(target)).map(([, way]) => way)
  const programs = findPrograms(read(path)).filter(({ what }) => !everywhere.includes(what))
  return [
    ...by(/(^|\/)test\/servers\/programs\.ts$/),
    ...programs.map(({ what, line }) => `${path}:${line} starts ${what}`),
    ...(tier === 'quick'
      ? [
          ...by(/^node:(child_process|worker_threads|cluster)$/),
          ...findLongWaits(read(path)).map(({ what, line }) => `${path}:${line} ${what}`),
        ]
      : []),
  ]
}

test('the name of a test that starts a process, waits, or needs a program has the tier for it', () => {
  const tests = files.filter((path) => path.endsWith('.test.ts'))
  expect(new Set(tests.map(tierOf))).toEqual(new Set(['quick', 'process', 'slow', 'server', 'proof', 'proof-sample']))
  expect(tests.flatMap((path) => findMisplaced(path))).toEqual([])
})

test('a test in the wrong tier is reported', () => {
  const planted: Record<string, string> = {
    'test/direct.test.ts': `import { spawn } from 'node:child_process'`,
    'test/indirect.test.ts': `import { a } from './helper.ts'`,
    'test/helper.ts': `export { spawn } from 'node:child_process'`,
    'test/sleepy.test.ts': `setTimeout(done, 201)\nawait delay(2 * 1_000)\nawait delay(200)`,
    'test/erased.test.ts': `import type { ChildProcess } from 'node:child_process'`,
    'packages/cli/test/cluster.process.test.ts': `import { programs } from '../../../test/servers/programs.ts'`,
    'test/servers/programs.ts': '',
    'test/shell.process.test.ts': `execFileSync('curl', [])\nexecFileSync('sh', [])\npromisify(execFile)('bash', [])`,
    'test/shell.server.test.ts': `execFileSync('curl', [])`,
  }
  const found = Object.keys(planted)
    .filter((path) => path.endsWith('.test.ts'))
    .flatMap((path) => findMisplaced(path, (other) => planted[other] ?? ''))
  expect(found).toEqual([
    'test/direct.test.ts > node:child_process',
    'test/indirect.test.ts > test/helper.ts > node:child_process',
    'test/sleepy.test.ts:1 setTimeout of 201 ms',
    'test/sleepy.test.ts:2 delay of 2000 ms',
    'packages/cli/test/cluster.process.test.ts > test/servers/programs.ts',
    'test/shell.process.test.ts:1 starts curl',
    'test/shell.process.test.ts:3 starts bash',
  ])
})
