import MiniSearch from 'minisearch'
import { searchOptions } from './search-options.js'

/** Longer sections are tables, whose last rows hardly anyone looks for by words of the first. */
const longestText = 6_000

/**
 * Returns the index of all sections, as the browser loads it.
 * @param {readonly import('./markdown.js').Page[]} pages
 */
export function searchIndex(pages) {
  const index = new MiniSearch(searchOptions)
  const all = pages.flatMap(({ path, title: page, sections }) =>
    sections.map(({ title, anchor, text }) => ({
      id: `${path}#${anchor}`,
      page,
      title,
      text: text.slice(0, longestText),
      start: text.slice(0, 160),
    })),
  )
  index.addAll(all)
  return index.toJSON()
}
