import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { expect, test } from 'vitest'
import { faultKinds } from '../packages/testing/src/simulation/index.ts'
import { readDocument, root } from './documents.ts'
import { listFiles } from './source-files.ts'

const document = readDocument('docs/explanation/robustness.md')

test('every file that docs/explanation/robustness.md names exists', () => {
  const named = [...document.matchAll(/(?:packages|test)\/[\w/.-]+\.ts/g)].map(([path]) => path)
  expect(named.length).toBeGreaterThan(100)
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([])
})

test('every simulated fault that docs/explanation/robustness.md names exists', () => {
  const faults = [...document.matchAll(/\bfaults? ((?:`[\w-]+`(?:, )?)+)/g)].flatMap((match) =>
    [...(match[1] ?? '').matchAll(/`([\w-]+)`/g)].map(([, kind]) => kind),
  )
  expect(faults.length).toBeGreaterThan(10)
  expect(faults.filter((kind) => !(faultKinds as readonly (string | undefined)[]).includes(kind))).toEqual([])
})

test('docs/explanation/robustness.md links to every list of mutants', () => {
  const lists = listFiles().filter((path) => /(?:^|\/)test\/.*mutants\.ts$/.test(path))
  expect(lists.length).toBeGreaterThan(15)
  expect(lists.filter((path) => !document.includes(`(../../${path})`))).toEqual([])
})

test('every test that docs/explanation/comparison.md names exists', () => {
  const page = readDocument('docs/explanation/comparison.md')
  const [, ...rows] = [...page.matchAll(/^\| [^|]+ \| [^|]+ \| ([^|]+) \|$/gm)]
  expect(rows.length).toBeGreaterThan(10)
  const names = testNamesIn('packages/tenure/test/api/bugs-of-other-libraries.test.ts')
  expect(rows.map((row) => row[1] ?? '').filter((name) => !names.some((pattern) => pattern.test(name)))).toEqual([])
})

/** Every text in a test file that can be the name of a test, as a pattern: the gaps of a template match anything. */
function testNamesIn(path: string): RegExp[] {
  const source = ts.createSourceFile(path, readFileSync(join(root, path), 'utf8'), ts.ScriptTarget.Latest, true)
  const names: RegExp[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isStringLiteralLike(node)) names.push(exactly(node.text))
    if (ts.isTemplateExpression(node)) {
      names.push(exactly(node.head.text, ...node.templateSpans.map(({ literal }) => literal.text)))
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return names
}

function exactly(...parts: string[]): RegExp {
  return new RegExp(`^${parts.map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.+')}$`)
}
