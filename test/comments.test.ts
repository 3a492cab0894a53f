import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { expect, test } from 'vitest'
import { refusedPhrases } from './refused-phrases.ts'
import { listFiles, root } from './source-files.ts'

/** In code, rules judge claims, and a store or a candidate judges expiry: that is the name of the functions. */
const inCode = refusedPhrases.filter(([phrase]) => !phrase.test('judged'))

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

function findRefused(path: string, text: string): string[] {
  return commentsIn(path, text).flatMap(({ line, comment }) =>
    inCode.flatMap(([phrase, advice]) => {
      const hit = phrase.exec(comment)
      return hit ? [`${path}:${line} "${hit[0]}", rather: ${advice}`] : []
    }),
  )
}

test('no comment in the sources contains a phrase that must be read twice', () => {
  const sources = listFiles().filter((path) => /^packages\/[^/]+\/src\/.*\.tsx?$/.test(path))
  expect(sources.length).toBeGreaterThan(300)
  expect(sources.flatMap((path) => findRefused(path, readFileSync(join(root, path), 'utf8')))).toEqual([])
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
