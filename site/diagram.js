/**
 * Renders a Mermaid flowchart as a list of arrows. A browser needs no script for it, which would be larger than all
 * pages together, and a screen reader can read it.
 */
import { escapeHtml } from './highlight.js'

const node = '([\\w-]+)(?:\\["([^"]*)"\\]|\\[\\("([^"]*)"\\)\\]|\\[([^\\]"]*)\\])?'
const arrow = '(<-->|-->|-- "([^"]*)" -->|-\\. "([^"]*)" \\.->)'

/** @param {string} source */
export function renderDiagram(source) {
  /** @type {Map<string, string>} */
  const labels = new Map()
  /** @type {Map<string, string>} */
  const groups = new Map()
  /** @type {{ group: string, from: string, arrow: string, label: string, to: string }[]} */
  const edges = []
  let group = ''
  /** @param {(string | undefined)[]} match */
  const nameNode = ([id = '', ...labelled]) => {
    const label = labelled.find((text) => text !== undefined)
    if (label !== undefined) labels.set(id, label)
    if (group !== '') groups.set(id, group)
    return id
  }
  const [head = '', ...lines] = source.split('\n').map((text) => text.trim())
  if (!head.startsWith('flowchart ')) throw new Error(`Only flowcharts are understood, not: ${head}`)
  for (const line of lines) {
    const [, name, title] = /^subgraph (\w+)(?: \["?([^"\]]*)"?\])?$/.exec(line) ?? []
    if (name !== undefined) {
      group = title ?? name
      // An arrow may lead to a group as a whole.
      labels.set(name, group)
      continue
    }
    if (line === 'end') {
      group = ''
      continue
    }
    const edge = new RegExp(`^${node} ${arrow} ${node}$`).exec(line)
    const single = new RegExp(`^${node}$`).exec(line)
    if (edge) {
      const from = nameNode(edge.slice(1, 5))
      const to = nameNode(edge.slice(8, 12))
      edges.push({ group, from, arrow: edge[5] === '<-->' ? '↔' : '→', label: edge[6] ?? edge[7] ?? '', to })
    } else if (single) nameNode(single.slice(1, 5))
    else if (line !== '') throw new Error(`A diagram has a line that is not understood: ${line}`)
  }
  /** @type {Set<string>} */
  const explained = new Set()
  /** @param {string} id @param {string} around The group of the arrow, which is shown once. */
  const shown = (id, around) => {
    const own = groups.get(id) ?? ''
    const [name = '', ...about] = (labels.get(id) ?? id).split(': ')
    const explanation = about.length > 0 && !explained.has(id) ? `: ${about.join(': ')}` : ''
    explained.add(id)
    return `${own === around ? '' : groupOf(own)}<b>${escapeHtml(name)}</b>${escapeHtml(explanation)}`
  }
  const rows = edges.map(
    ({ group, from, arrow, label, to }) =>
      `<li>${groupOf(group)}${shown(from, group)} <span class="arrow">${arrow}</span> ${shown(to, group)}${label ? `<small>${escapeHtml(label)}</small>` : ''}</li>`,
  )
  return `<ul class="diagram">${rows.join('\n')}</ul>\n`
}

/** @param {string} name */
function groupOf(name) {
  return name === '' ? '' : `<i>${escapeHtml(name)}</i>`
}
