// Writes llms.txt: the pages of the docs, in the order of docs/README.md, in a form that tools read.
import { readFileSync, writeFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const address = 'https://raw.githubusercontent.com/tenure-js/tenure/main'

export const llmsFile = join(root, 'llms.txt')

/** Returns the content of that file. */
export function llmsText() {
  return llmsTextFrom((path) => readFileSync(join(root, path), 'utf8'))
}

/** @param {(path: string) => string} read reads a page, by its path from the root */
export function llmsTextFrom(read) {
  const [lead = ''] = paragraphsOf(read('README.md'))
  const [, ...sections] = read('docs/README.md').split(/^## /m)
  /** @type {Set<string>} */
  const listed = new Set()
  /** @param {string} section */
  const listOf = (section) => {
    const heading = section.split('\n', 1)[0] ?? ''
    const links = [...section.matchAll(/\]\(([^)#\s]+\.md)(?:#[^)]*)?\)/g)].map(([, path = '']) =>
      posix.join('docs', path),
    )
    const entries = links
      .filter((path) => !listed.has(path) && listed.add(path))
      .map((path) => entryOf(path, read(path)))
    return `## ${heading.replace(/:.*/, '')}\n\n${entries.join('\n')}\n`
  }
  const first = entryOf('README.md', read('README.md'))
  return [`# Tenure\n\n> ${plain(lead)}\n\n${first}\n`, ...sections.map(listOf)].join('\n')
}

/** @param {string} path @param {string} text */
function entryOf(path, text) {
  const title = plain(/^# (.+)$/m.exec(text)?.[1] ?? path)
  const [sentence = ''] = /^.*?[.:](?=\s|$)/s.exec(plain(paragraphsOf(text)[0] ?? '')) ?? []
  return `- [${title}](${address}/${path})${sentence === '' ? '' : `: ${sentence.replace(/:$/, '.')}`}`
}

/** The paragraphs of prose after the title. @param {string} text */
function paragraphsOf(text) {
  const blocks = text.replace(/^```[\s\S]*?^```/gm, '').split(/\n{2,}/)
  return blocks.map((block) => block.trim()).filter((block) => /^[A-Z`*[]/.test(block) && !block.startsWith('[!['))
}

/** Without links and emphasis, on one line. @param {string} text */
function plain(text) {
  return text
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/\*\*?/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim()
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(llmsFile, llmsText())
