import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { packageReadme, packageReadmeFile } from '../scripts/package-readme.js'
import { listDocuments, readDocument, withoutCode } from './documents.ts'

const pages = listDocuments()

test('the README fits on a few screens', () => {
  expect(readDocument('README.md').trimEnd().split('\n').length).toBeLessThanOrEqual(130)
})

test('the README of the package equals that of the repository (npm run format writes it)', () => {
  expect(readFileSync(packageReadmeFile, 'utf8')).toBe(packageReadme())
})

test('the index links to every page', () => {
  const index = readDocument('docs/README.md')
  const listed = pages.filter((page) => /^docs\/.+\/.+/.test(page)).map((page) => page.replace('docs/', ''))
  expect(listed.length).toBeGreaterThan(30)
  expect(listed.filter((page) => !index.includes(`](${page})`))).toEqual([])
})

/** The pages that may use the numbers of the design documents and of the catalog of faults. */
const numbered = ['docs/explanation/divergence.md', 'docs/explanation/robustness.md']
const numbers = /\bdocument 00\d\b|\b[A-G]\d{1,2}\b/gi

/** Phrases that must be read twice, and internal numbers, each with a better wording. */
const refused: readonly [what: RegExp, rather: string][] = [
  [/\b(?:is|are|was|were|be|been) told\b(?! (?:apart|to)\b)|\btold of\b/i, 'is reported, notified, logged'],
  [/\b(?:unless|until) told\b/i, 'by default, unless set'],
  [/\bstands? in (?:it|the|a|its|no|each|every|one)\b|\blies? in (?:the|a|its)\b/i, 'is in'],
  [/(?<!there )\b(?:is|are|was) no (?!longer\b|more\b|less\b)[a-z]+/i, 'is not a'],
  [/\banew\b/i, 'again'],
  [/\balso (?:when|if|where|while|without|after)\b/i, 'even when'],
  [/\bfor so long\b|\bso often\b/i, 'for that long'],
  [/\b(?:can(?:not)?|may) be had\b/i, 'is available'],
  [/\bwhoever\b/i, 'the caller, the leader, a client that'],
  [/(?:^|[.:;] |\| )Who (?![^.|]*\?)(?=[^.|]*[.|])/m, 'the caller, the leader, a client that'],
  [/\bdocument 00\d\b|(?:\(|\| )[A-G]\d{1,2}\b/i, 'the name of what it describes, the fault in words'],
]

/** Returns the page's own prose. The names of tests and mutants, and help texts, are checked in their sources. */
function ownWords(page: string, text: string): string {
  const whole = numbered.includes(page) ? text.replace(/^## Mutants [^]*/m, '').replaceAll(numbers, '') : text
  return withoutCode(whole.replaceAll(/^\| (?:`--|.*`TENURE_).*$/gm, '')).replaceAll(/"[^"\n]*"/g, '""')
}

function findRefused(page: string, text: string): string[] {
  const prose = ownWords(page, text)
  return refused.flatMap(([what, rather]) => {
    const found = what.exec(prose)
    return found ? [`${page}: "${found[0].trim()}", rather: ${rather}`] : []
  })
}

test.each(pages)('%s contains no phrase that must be read twice', (page) => {
  expect(findRefused(page, readDocument(page))).toEqual([])
})

test('each phrase that must be read twice is reported', () => {
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
