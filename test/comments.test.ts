import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { expect, test } from 'vitest'
import { refusedInText } from './refused-phrases.ts'
import { listFiles, root } from './source-files.ts'

/** Returns the comments of a source file as one line each, with the line in which each begins. */
function commentsIn(path: string, text: string): { readonly line: number; readonly comment: string }[] {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, false)
  const seen = new Set<number>()
  const found: { line: number; comment: string }[] = []
  const visit = (node: ts.Node): void => {
    const ranges = [
      ...(ts.getLeadingCommentRanges(text, node.getFullStart()) ?? []),
      ...(ts.getTrailingCommentRanges(text, node.getEnd()) ?? []),
    ]
    for (const { pos, end } of ranges) {
      if (seen.has(pos)) continue
      seen.add(pos)
      const comment = text.slice(pos, end).replaceAll(/\n\s*\*? ?/g, ' ')
      found.push({ line: source.getLineAndCharacterOfPosition(pos).line + 1, comment })
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

/** Returns the line comments of a Go file. Comments on consecutive lines are one comment. */
function goCommentsIn(text: string): { readonly line: number; readonly comment: string }[] {
  const found: { line: number; comment: string }[] = []
  let end = 0
  for (const [index, code] of text.split('\n').entries()) {
    const comment = /(?:^|\s)\/\/(.*)$/.exec(code)?.[1]
    if (comment === undefined) continue
    const last = found.at(-1)
    if (last && index === end + 1 && /^\s*\/\//.test(code)) last.comment += comment
    else found.push({ line: index + 1, comment })
    end = index
  }
  return found
}

function findRefused(path: string, text: string): string[] {
  const comments = path.endsWith('.go') ? goCommentsIn(text) : commentsIn(path, text)
  return comments.flatMap(({ line, comment }) => refusedInText(comment).map((refused) => `${path}:${line} ${refused}`))
}

test(
  'no comment in a TypeScript or JavaScript file contains a phrase that must be read twice',
  { timeout: 120_000 },
  () => {
    const sources = listFiles().filter((path) => /\.(?:tsx?|m?js)$/.test(path))
    expect(sources.length).toBeGreaterThan(1_000)
    expect(sources.flatMap((path) => findRefused(path, readFileSync(join(root, path), 'utf8')))).toEqual([])
  },
)

test('no comment in a Go file contains a phrase that must be read twice', () => {
  const sources = listFiles().filter((path) => path.endsWith('.go'))
  expect(sources.length).toBeGreaterThan(40)
  expect(sources.flatMap((path) => findRefused(path, readFileSync(join(root, path), 'utf8')))).toEqual([])
})

test('a refused phrase is found in every kind of Go comment, and not in code', () => {
  const planted = [
    '// The leader is',
    '// told.',
    'var a = 1 // gives it back',
    'var b = "is told"',
    '\t// It is read anew.',
    'var c = "http://anew"',
  ].join('\n')
  expect(findRefused('a.go', planted)).toEqual([
    expect.stringMatching(/^a\.go:1 "is told"/),
    expect.stringMatching(/^a\.go:3 "gives it back"/),
    expect.stringMatching(/^a\.go:5 "anew"/),
  ])
})

test('a refused phrase is found in every kind of comment, and not in code', () => {
  const planted = [
    '/** The leader is told. */',
    'const a = 1 // gives it back',
    'function b() {',
    '  // The lease has run',
    '  /* is read anew */',
    '  return "is told"',
    '}',
  ].join('\n')
  expect(findRefused('a.ts', planted)).toEqual([
    expect.stringMatching(/^a\.ts:1 "is told"/),
    expect.stringMatching(/^a\.ts:2 "gives it back"/),
    expect.stringMatching(/^a\.ts:5 "anew"/),
  ])
})
