/** Renders a Markdown page: anchors as on GitHub, highlighted code, code in tabs, and diagrams as lists of arrows. */
import { posix } from 'node:path'
import { Marked } from 'marked'
import { renderDiagram } from './diagram.js'
import { escapeHtml, highlight, nameOfLanguage } from './highlight.js'

/**
 * @typedef {{ title: string, anchor: string, level: number, text: string }} Section The text is for the search.
 * @typedef {{ title: string, html: string, sections: Section[], pictures: string[] }} Rendered
 * @typedef {Rendered & { path: string, edit?: string }} Page
 * @typedef {object} Context
 * @property {(link: string) => { href: string, picture?: string }} link Returns where a link leads.
 * @property {(name: string, section: string) => string | undefined} [code] Returns where a name in a table leads.
 */

/**
 * Returns the page of a source: `README.md` is the index of its folder.
 * @param {string} source
 */
export function pageOf(source) {
  const folder = posix.dirname(source)
  return posix.basename(source) === 'README.md' ? posix.join(folder, 'index.html') : source.replace(/\.md$/, '.html')
}

/**
 * Returns the anchor of a heading, as GitHub names it.
 * @param {string} heading
 */
export function anchorOf(heading) {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(' ', '-')
}

/**
 * @param {string} text
 * @param {Context} context
 * @returns {Rendered}
 */
export function renderMarkdown(text, context) {
  /** @type {Section[]} */
  const sections = []
  /** @type {string[]} */
  const pictures = []
  /** @type {Map<string, number>} */
  const anchors = new Map()
  const marked = new Marked({
    gfm: true,
    renderer: {
      heading({ tokens, depth }) {
        const html = this.parser.parseInline(tokens)
        const title = plain(html)
        const base = anchorOf(title)
        const seen = anchors.get(base) ?? 0
        anchors.set(base, seen + 1)
        const anchor = seen === 0 ? base : `${base}-${seen}`
        sections.push({ title, anchor, level: depth, text: '' })
        const link = depth === 1 ? '' : ` <a class="anchor" href="#${anchor}" aria-label="Link to this section">#</a>`
        return `<h${depth} id="${anchor}">${html}${link}</h${depth}>\n`
      },
      code({ text, lang }) {
        return blockOf(text, lang)
      },
      link({ href, tokens }) {
        return `<a href="${escapeHtml(context.link(href).href)}">${this.parser.parseInline(tokens)}</a>`
      },
      image({ href, text }) {
        const { href: source, picture } = context.link(href)
        if (picture !== undefined) pictures.push(picture)
        return `<img src="${escapeHtml(source)}" alt="${escapeHtml(text)}" loading="lazy">`
      },
      table(token) {
        /** @param {import('marked').Tokens.TableCell} cell @param {string} tag */
        const cellOf = (cell, tag) => `<${tag}>${this.parser.parseInline(cell.tokens)}</${tag}>`
        const head = token.header.map((cell) => cellOf(cell, 'th')).join('')
        const rows = token.rows.map((row) => `<tr>${row.map((cell) => cellOf(cell, 'td')).join('')}</tr>`)
        const isNamed = token.header.some((cell) => cell.text.trim() !== '')
        return `<div class="table" tabindex="0"><table>${isNamed ? `<thead><tr>${head}</tr></thead>` : ''}<tbody>${rows.join('\n')}</tbody></table></div>\n`
      },
      codespan({ text }) {
        const href = context.code?.(text, sections.at(-1)?.title ?? '')
        const html = `<code>${escapeHtml(text)}</code>`
        return href === undefined ? html : `<a href="${escapeHtml(href)}">${html}</a>`
      },
    },
  })
  const rendered = marked.parse(text, { async: false })
  const html = withTabs(rendered)
  fillSections(html, sections)
  return { title: sections[0]?.title ?? '', html, sections, pictures }
}

/**
 * @param {string} text
 * @param {string | undefined} info The words after the fence.
 */
function blockOf(text, info = '') {
  const [language = ''] = info.split(' ')
  if (language === 'mermaid') return renderDiagram(text)
  const name = nameOfLanguage(language)
  return `<div class="code" data-language="${name}"><pre tabindex="0"><code>${highlight(text, language)}</code></pre></div>\n`
}

let tabs = 0

/**
 * Code blocks that follow `<!-- tabs -->` directly are one group of tabs, with one tab for each language.
 * @param {string} html
 */
function withTabs(html) {
  const block = '<div class="code" data-language="([^"]*)">[^]*?</pre></div>\\s*'
  return html.replaceAll(new RegExp(`<!-- tabs -->\\s*((?:${block})+)`, 'g'), (_, /** @type {string} */ group) => {
    tabs += 1
    const blocks = [...group.matchAll(new RegExp(block, 'g'))]
    const names = blocks.map(([, name = '']) => name)
    if (new Set(names).size < Math.max(2, names.length))
      throw new Error(`Tabs need two languages or more, each once: ${names.join(', ')}`)
    const id = `tabs-${tabs}`
    const buttons = names.map(
      (name, index) =>
        `<button type="button" role="tab" id="${id}-${index}" aria-controls="${id}-panel-${index}" aria-selected="${index === 0}" data-language="${name}"${index === 0 ? '' : ' tabindex="-1"'}>${name}</button>`,
    )
    const panels = blocks.map(
      ([html], index) =>
        `<div role="tabpanel" id="${id}-panel-${index}" aria-labelledby="${id}-${index}"${index === 0 ? '' : ' class="unselected"'}>${html}</div>`,
    )
    return `<div class="tabs"><div role="tablist" aria-label="Language">${buttons.join('')}</div>${panels.join('')}</div>\n`
  })
}

/**
 * Gives each section the text between its heading and the next one.
 * @param {string} html
 * @param {Section[]} sections
 */
function fillSections(html, sections) {
  const parts = html.split(/<h[1-6] id="[^"]*">/).slice(1)
  for (const [index, part] of parts.entries()) {
    const section = sections[index]
    if (section)
      section.text = plain(part.replace(/^[^]*?<\/h[1-6]>/, ''))
        .replaceAll(/\s+/g, ' ')
        .trim()
  }
}

/** @param {string} html */
function plain(html) {
  return html
    .replaceAll(/<!--[^]*?-->/g, '')
    .replaceAll(/<\/(?:p|td|th|li|pre|button|h\d)>/g, ' ')
    .replaceAll(/<[^>]+>/g, '')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll(/&#(?:39|x27);/g, "'")
    .replaceAll('&amp;', '&')
}
