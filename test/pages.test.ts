import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { packageReadme, packageReadmeFile } from '../scripts/package-readme.js'
import { listDocuments, readDocument, withoutCode } from './documents.ts'
import { refusedPhrases } from './refused-phrases.ts'

const pages = listDocuments()

test('the README fits on a few screens', () => {
  expect(readDocument('README.md').trimEnd().split('\n').length).toBeLessThanOrEqual(130)
})

test('the README of the package is that of the repository (npm run format writes it)', () => {
  expect(readFileSync(packageReadmeFile, 'utf8')).toBe(packageReadme())
})

test('the index leads to every page', () => {
  const index = readDocument('docs/README.md')
  const listed = pages.filter((page) => /^docs\/.+\/.+/.test(page)).map((page) => page.replace('docs/', ''))
  expect(listed.length).toBeGreaterThan(30)
  expect(listed.filter((page) => !index.includes(`](${page})`))).toEqual([])
})

/** Where the numbers of the design documents and of the catalogue of faults belong. */
const numbered = ['docs/explanation/divergence.md', 'docs/explanation/robustness.md']
const numbers = /\bdocument 00\d\b|\b[A-G]\d{1,2}\b/gi

/** Internal numbers. A page says what they stand for. */
const internalNumbers = [
  /\bdocument 00\d\b|(?:\(|\| )[A-G]\d{1,2}\b/i,
  'the name of what it describes, the fault in words',
] as const

/** What a page says by itself: names of tests and mutants, and help texts, are checked where they are written. */
function ownWords(page: string, text: string): string {
  const whole = numbered.includes(page) ? text.replace(/^## Mutants [^]*/m, '').replaceAll(numbers, '') : text
  return withoutCode(whole.replaceAll(/^\| (?:`--|.*`TENURE_).*$/gm, '')).replaceAll(/"[^"\n]*"/g, '""')
}

function findRefused(page: string, text: string): string[] {
  const prose = ownWords(page, text)
  return [...refusedPhrases, internalNumbers].flatMap(([phrase, advice]) => {
    const found = phrase.exec(prose)
    return found ? [`${page}: "${found[0].trim()}", rather: ${advice}`] : []
  })
}

test.each(pages)('%s reads by itself', (page) => {
  expect(findRefused(page, readDocument(page))).toEqual([])
})

test('a turn of phrase that must be read twice is found', () => {
  const planted = [
    'The leader is told.',
    'It waits 10 s unless told otherwise.',
    'The term stands in the record.',
    'It is no store.',
    'It is read anew.',
    'It holds also when the store hangs.',
    'It waits for so long.',
    'Rights can be had.',
    'It ends. Whoever leads stops.',
    'Who leads is a leader.',
    'As document 003 has it.',
    'A deleted record (D9) counts as held.',
  ]
  expect(planted.filter((text) => findRefused('a.md', text).length === 0)).toEqual([])
  const sound = ['Who leads now?', '| who leads |', '`is told`', 'It is no longer there.', 'It said "is told".']
  expect(sound.flatMap((text) => findRefused('a.md', text))).toEqual([])
})
