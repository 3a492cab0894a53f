/**
 * node site/build.js [FOLDER]
 *
 * Builds the documentation as static pages, by default in `site/dist`. Every Markdown page of the repository becomes a
 * page with the same path, and every entry point of the packages gets a page from the comments in its declarations. All
 * links are relative and all files are local, so the pages work under any path, and even from the file system.
 */
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'
import { findDeadLinks, findForeignFiles } from './check-pages.js'
import { layout } from './layout.js'
import { pageOf, renderMarkdown } from './markdown.js'
import { navigation } from './navigation.js'
import { referencePages } from './reference.js'
import { searchIndex } from './search-index.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const repository = 'https://github.com/tenure-js/tenure'

/** @typedef {import('./markdown.js').Page} Page */

/** Markdown of the repository that is not documentation, or a copy of another page. */
const excluded = /^(?:node_modules|site|packages\/[^/]+\/(?:node_modules|dist)|packages\/tenure\/README\.md$)(?:\/|$)/

/**
 * @param {string} [folder]
 * @returns {string[]}
 */
function listMarkdown(folder = '') {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = posix.join(folder, entry.name)
    if (excluded.test(path) || entry.name === 'node_modules' || entry.name.startsWith('.')) return []
    if (entry.isDirectory()) return listMarkdown(path)
    return path.endsWith('.md') ? [path] : []
  })
}

/**
 * Builds all pages into a folder, and fails if a link is dead or a page loads a file from another host.
 * @param {string} target
 */
export async function buildSite(target) {
  const sources = listMarkdown()
  const reference = referencePages()
  /** @param {string} from @param {string} link */
  const resolveLink = (from, link) => resolve(new Set(sources), from, link)
  /** @type {Page[]} */
  const pages = [
    ...sources.map((source) => ({
      ...renderMarkdown(readFileSync(join(root, source), 'utf8'), {
        link: (link) => resolveLink(source, link),
        code: (name, heading) => (source === 'docs/reference/exports.md' ? reference.find(name, heading) : undefined),
      }),
      path: pageOf(source),
      edit: `${repository}/blob/main/${source}`,
    })),
    ...reference.pages,
  ]
  rmSync(target, { recursive: true, force: true })
  const menu = navigation(readFileSync(join(root, 'docs/README.md'), 'utf8'), pages, reference.pages)
  for (const page of pages) write(target, page.path, layout(page, menu, repository))
  for (const picture of pages.flatMap(({ pictures }) => pictures)) {
    mkdirSync(dirname(join(target, picture)), { recursive: true })
    copyFileSync(join(root, picture), join(target, picture))
  }
  write(target, 'assets/search-index.js', `window.tenureSearchIndex=${JSON.stringify(searchIndex(pages))}\n`)
  cpSync(fileURLToPath(new URL('browser/site.css', import.meta.url)), join(target, 'assets/site.css'))
  await bundleScript(join(target, 'assets'))
  const faults = [...findDeadLinks(target), ...findForeignFiles(target)]
  if (faults.length > 0) throw new Error(`The pages have faults:\n${faults.join('\n')}`)
  return { pages: pages.length }
}

/**
 * Returns where a link of a page leads: to another page, or to a file of the repository.
 * @param {ReadonlySet<string>} sources
 * @param {string} from
 * @param {string} link
 * @returns {{ href: string, picture?: string }}
 */
function resolve(sources, from, link) {
  if (/^[a-z]+:/i.test(link) || link.startsWith('#')) return { href: link }
  const [path = '', anchor] = link.split('#')
  const file = posix.normalize(posix.join(posix.dirname(from), path)).replace(/\/$/, '')
  const suffix = anchor === undefined ? '' : `#${anchor}`
  const source = [file, posix.join(file, 'README.md')].find((candidate) => sources.has(candidate))
  const here = posix.dirname(pageOf(from))
  if (source) return { href: posix.relative(here, pageOf(source)) + suffix }
  if (!existsSync(join(root, file))) throw new Error(`${from} links to ${link}, which does not exist`)
  if (file.endsWith('.svg')) return { href: posix.relative(here, file), picture: file }
  return { href: `${repository}/tree/main/${file}${suffix}` }
}

/** @param {string} folder */
async function bundleScript(folder) {
  const built = await rolldown({
    input: fileURLToPath(new URL('browser/site.js', import.meta.url)),
    platform: 'browser',
  })
  await built.write({ file: join(folder, 'site.js'), format: 'iife', minify: true })
  await built.close()
}

/**
 * @param {string} target
 * @param {string} path
 * @param {string} text
 */
function write(target, path, text) {
  mkdirSync(dirname(join(target, path)), { recursive: true })
  writeFileSync(join(target, path), text)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const target = process.argv[2] ?? fileURLToPath(new URL('dist', import.meta.url))
  const { pages } = await buildSite(target)
  console.log(`${pages} pages in ${target}. Open ${join(target, 'index.html')} in a browser.`)
}
