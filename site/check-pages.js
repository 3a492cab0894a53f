/** Checks of the built pages. */
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'

/** @param {string} folder */
function listFiles(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
}

/** @param {string} text */
function decode(text) {
  return text.replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
}

/**
 * Returns the links and files of pages that do not exist, and anchors that their page does not have.
 * @param {string} folder
 */
export function findDeadLinks(folder) {
  const pages = listFiles(folder).filter((file) => file.endsWith('.html'))
  /** @type {Map<string, Set<string>>} */
  const anchors = new Map()
  const texts = new Map(pages.map((page) => [page, readFileSync(page, 'utf8')]))
  for (const [page, text] of texts) {
    const ids = [...text.matchAll(/ id="([^"]*)"/g)].map(([, id = '']) => decode(id))
    const repeated = ids.filter((id, at) => ids.indexOf(id) !== at)
    if (repeated.length > 0) return [`${relative(folder, page)} has the anchor ${repeated[0]} twice`]
    anchors.set(page, new Set(ids))
  }
  return [...texts].flatMap(([page, text]) =>
    [...text.matchAll(/<(?:a|link|script|img)\b[^>]*? (?:href|src)="([^"]*)"/g)].flatMap(([, found = '']) => {
      const link = decode(found)
      if (/^[a-z]+:/i.test(link)) return []
      const [path = '', anchor] = link.split('#')
      const file = path === '' ? page : join(dirname(page), path)
      const isDead = !existsSync(file) || (anchor !== undefined && !anchors.get(file)?.has(anchor))
      return isDead ? [`${relative(folder, page)} links to ${link}, which does not exist`] : []
    }),
  )
}

/**
 * Returns the scripts, styles, fonts and pictures that pages, styles or pictures load from another host. A link that a
 * reader follows is not one. The policy of each page keeps its script from loading anything else.
 * @param {string} folder
 */
export function findForeignFiles(folder) {
  const tags =
    /<(?:script|img|link|iframe|source|video|audio|object|embed|image|use)\b[^>]*? (?:src|href|srcset|data|xlink:href)="((?:https?:)?\/\/[^"]*)"/g
  const styles = [/\burl\(\s*["']?((?:https?:)?\/\/[^)"']*)/g, /@import\s+(?:url\()?["']?((?:https?:)?\/\/[^"')]*)/g]
  return listFiles(folder).flatMap((file) => {
    const text = readFileSync(file, 'utf8')
    const patterns = file.endsWith('.html') ? [tags] : file.endsWith('.css') ? styles : [tags, ...styles]
    const isText = /\.(?:html|css|svg)$/.test(file)
    const found = isText ? patterns.flatMap((pattern) => [...text.matchAll(pattern)]) : []
    return found.map(([, address = '']) => `${relative(folder, file)} loads ${address}`)
  })
}
