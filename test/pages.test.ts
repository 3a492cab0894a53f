import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { entryPoints, exportsPage, exportsPageFile, firstSentence } from '../scripts/exports-page.js'
import { llmsFile, llmsText, llmsTextFrom } from '../scripts/llms-text.js'
import { packageReadme, packageReadmeFile } from '../scripts/package-readme.js'
import { listDocuments, readDocument, withoutCode } from './documents.ts'
import { refusedPhrases } from './refused-phrases.ts'

const pages = listDocuments()
const entries = entryPoints()

const undescribed = (all: ReturnType<typeof entryPoints>) =>
  all.flatMap(({ entry, about, names }) => [
    ...(about === '' ? [entry] : []),
    ...names.filter((each) => each.about === '').map(({ name }) => `${entry}: ${name}`),
  ])

test('the README fits on a few screens', () => {
  expect(readDocument('README.md').trimEnd().split('\n').length).toBeLessThanOrEqual(130)
})

test('the README of the package equals that of the repository (npm run format writes it)', () => {
  expect(readFileSync(packageReadmeFile, 'utf8')).toBe(packageReadme())
})

test('docs/reference/exports.md lists every exported name (npm run format writes it)', () => {
  expect(readFileSync(exportsPageFile, 'utf8')).toBe(exportsPage(entries))
})

test('llms.txt lists every page of the docs (npm run format writes it)', () => {
  const text = readFileSync(llmsFile, 'utf8')
  expect(text).toBe(llmsText())
  const listed = pages.filter((page) => /^docs\/.+\/.+/.test(page))
  expect(listed.filter((page) => !text.includes(`/main/${page})`))).toEqual([])
})

test('llms.txt has one line per page, with its title and first sentence, under the heading of its section', () => {
  const written: Record<string, string> = {
    'README.md': '# A\n\nA elects. It leads.\n',
    'docs/README.md': '# Docs\n\n## Guides: start\n\n- [b](guide/b.md), [c](guide/b.md#c), [d](../LICENSE)\n',
    'docs/guide/b.md': '# The `B`\n\n```js\nb()\n```\n\nB is [a **page**](c.md) of\ntwo lines. More.\n',
  }
  const lines = llmsTextFrom((path) => written[path] ?? expect.unreachable(path)).split('\n')
  expect(lines).toContain('> A elects. It leads.')
  expect(lines.slice(lines.indexOf('## Guides'))).toEqual([
    '## Guides',
    '',
    expect.stringMatching(/^- \[The `B`\]\(https:\/\/\S+\/docs\/guide\/b\.md\): B is a page of two lines\.$/),
    '',
  ])
})

test('AGENTS.md fits on one screen and points to CONTRIBUTING.md', () => {
  const text = readDocument('AGENTS.md')
  expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(20)
  expect(text).toContain('](CONTRIBUTING.md)')
})

test('every entry point and every exported name has a comment', () => {
  expect(entries.length).toBeGreaterThan(20)
  expect(undescribed(entries)).toEqual([])
})

test('an entry point and a name without a comment are reported, and a comment is cut after its first sentence', () => {
  const planted = {
    entry: 'planted',
    about: '',
    internal: false,
    names: [{ name: 'bare', kind: 'function', about: '' }],
  }
  expect(undescribed([planted])).toEqual(['planted', 'planted: bare'])
  expect(exportsPage([planted])).toContain('| `bare` | function |  |')
  expect(firstSentence('Keeps `a.b` and\n {@link lead}. Then more.\n\nAnd more.')).toBe('Keeps `a.b` and `lead`.')
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

/** Internal numbers. A page says what they stand for. */
const internalNumbers = [
  /\bdocument 00\d\b|(?:\(|\| )[A-G]\d{1,2}\b/i,
  'the name of what it describes, the fault in words',
] as const

/** Returns the page's own prose. The names of tests and mutants, and help texts, are checked in their sources. */
function ownWords(page: string, text: string): string {
  const whole = numbered.includes(page) ? text.replaceAll(numbers, '') : text
  return withoutCode(whole.replaceAll(/^\| (?:`--|.*`TENURE_).*$/gm, '')).replaceAll(/"[^"\n]*"/g, '""')
}

function findRefused(page: string, text: string): string[] {
  const prose = ownWords(page, text)
  return [...refusedPhrases, internalNumbers].flatMap(([phrase, advice]) => {
    const found = phrase.exec(prose)
    return found ? [`${page}: "${found[0].trim()}", rather: ${advice}`] : []
  })
}

test.each(pages)('%s contains no phrase that must be read twice', (page) => {
  expect(findRefused(page, readDocument(page))).toEqual([])
})

/** For each refused phrase, in the order of the list, a sentence that contains it and no other. */
const planted = [
  'The leader is told.',
  'The error tells of a loss.',
  'The follower heard of a change.',
  'It waits 10 s unless told otherwise.',
  'The term stands in the record.',
  'The clock stood still.',
  'It is no store.',
  'It is read anew.',
  'It runs once for ever.',
  'The connection is lost for good.',
  'It holds also when the store hangs.',
  'It waits for so long.',
  'Rights can be had.',
  'It ends, and whoever leads stops.',
  'Who leads is a leader.',
  'The lease has run out.',
  'The leader gives the lease back.',
  'A follower passes calls on.',
  'A call is under way.',
  'A read shows what became of the call.',
  'It has a socket of its own.',
  'Time and chance come from a clock.',
  'It counts from the moment in which it was sent.',
  'A campaign waits in line.',
  'It names the version that was judged.',
  'The commit is taken for done.',
  'A watch falls silent.',
  'The socket is a sign of life.',
  'A test finds each planted mistake.',
  'Another reign begins.',
  'The carry is lost.',
  'A standby takes the leader for dead.',
  'An own grant is found.',
  'Like {@link read}, with a deadline.',
  'It returns the time left of a lease.',
  'What it throws is dropped.',
  'The call was given up.',
  'A lease is waited for.',
  'The count starts at first sight.',
  'A process paused after its last look at the lease.',
  'Send the term to what you write to.',
  'An id is drawn for each call.',
  'The backup was put back.',
  'The command ends with 69.',
  'The leader goes on.',
  'The data were restored.',
  'The address answers nothing.',
  'Since when it is active.',
  'A record has at most 30,000 bytes.',
  'No replica accepts the token any more.',
  'A release writes, too.',
  'The time is for people.',
  'It stops when the lease is over.',
  'The answer is on its way.',
  'It reads the store now and then.',
  'A replica that knows of a loss stops.',
  'A file outside of the folder is refused.',
  'It waits, such as after a restart.',
  'A campaign keeps what is left of its wait.',
  'Pass the signal to everything that takes long.',
  'It refuses anything else than JSON.',
  'Nothing of it is in flight.',
  'It ends at that very moment.',
  'A data loss is detected.',
  'It accepts another type than expected.',
  'The file of --eligible-file exists.',
  'A relay gives up a call.',
  'The sidecar answers who leads.',
  'It counts how deep the text is nested.',
  'The lock must break no rule.',
  'A record may change meanwhile.',
  'The call is carried out nevertheless.',
  'It holds the record until when the lease ends.',
  'A roll-out replaces every process.',
  'A hand-over takes milliseconds.',
  'It honours every lease.',
]

test('each refused phrase is found in a sentence that contains it, and only there', () => {
  expect(planted.length).toBe(refusedPhrases.length)
  for (const [index, text] of planted.entries()) {
    const advice = refusedPhrases[index]?.[1] ?? ''
    expect(findRefused('a.md', text), text).toEqual([expect.stringContaining(`rather: ${advice}`)])
  }
})

test('an internal number in a page is refused', () => {
  const numberedTexts = ['As document 003 has it.', 'A deleted record (D9) counts as held.']
  expect(numberedTexts.filter((text) => findRefused('a.md', text).length === 0)).toEqual([])
})

test.each([
  'Who leads now?',
  '| who leads |',
  '`is told`',
  'It is no longer there.',
  'It said "is told".',
  'The disk runs out of space.',
  'It uses the clock of its own machine.',
  'Each pass on the data takes a second.',
  'Tenure and client-go on one Lease.',
  'The time ends with the lease.',
  'The process has 64 MB of memory.',
])('no phrase is refused in: %s', (sound) => {
  expect(findRefused('a.md', sound)).toEqual([])
})
