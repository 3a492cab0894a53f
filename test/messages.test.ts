import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { refusedInText } from './refused-phrases.ts'
import { listFiles, root } from './source-files.ts'
import { textsIn } from './text-literals.ts'

function findRefused(path: string, source: string): string[] {
  return textsIn(path, source).flatMap(({ line, text }) =>
    refusedInText(text).map((refused) => `${path}:${line} ${refused}`),
  )
}

test('no error, log line, or help text contains a phrase that must be read twice', { timeout: 120_000 }, () => {
  const sources = listFiles().filter((path) => /^packages\/[^/]+\/src\/.*\.tsx?$/.test(path))
  expect(sources.length).toBeGreaterThan(300)
  expect(sources.flatMap((path) => findRefused(path, readFileSync(join(root, path), 'utf8')))).toEqual([])
})

test('a refused phrase is found in every kind of text, and not in comments', () => {
  const planted = [
    "throw new TenureError('BUSY', 'The caller is told.')",
    'const a = new Error(`${name} stands in the record`)',
    "const b = { help: 'how long a lease lasts also when it hangs' }",
    'log.info(`It waits ${ms} for so ${long} and then is read anew.`)',
    '// The leader is told.',
  ].join('\n')
  expect(findRefused('a.ts', planted)).toEqual([
    expect.stringMatching(/^a\.ts:1 "is told"/),
    expect.stringMatching(/^a\.ts:2 "stands in the"/),
    expect.stringMatching(/^a\.ts:3 "also when"/),
    expect.stringMatching(/^a\.ts:4 "anew"/),
  ])
})
