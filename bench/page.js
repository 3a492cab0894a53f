// docs/explanation/benchmarks.md, and how benchmarks update it.
import { join } from 'node:path'
import { format } from './report.js'

export const pageFile = join(import.meta.dirname, '../docs/explanation/benchmarks.md')

/**
 * Replaces the figures that a command wrote to the page before.
 *
 * @param {string} page
 * @param {string} command
 * @param {string} text
 */
export function withSection(page, command, text) {
  const [begin, end] = [`<!-- figures of ${command} -->`, `<!-- end of figures of ${command} -->`]
  const [before, , after] = page.split(new RegExp(`${begin}|${end}`))
  if (before === undefined || after === undefined) throw new Error(`${pageFile} has no section for ${command}`)
  return `${before}${begin}\n\n${text}\n\n${end}${after}`
}

/** @param {import('./report.js').Result[]} results */
export function goalsTable(results) {
  const rows = results.map(({ name, value, unit, goal, atMost, detail }) => {
    return [name, `${format(value)} ${unit}`, `${atMost ? 'at most' : 'below'} ${goal}`, detail]
  })
  return markdown(['Tenure', 'measured', 'goal', ''], rows)
}

/** @param {{ cpu: string, cores: number, node: string, load: number }} machine */
export function machineLine({ cores, cpu, node, load }) {
  return `On ${cores} cores (${cpu}), Node.js ${node}, load ${format(load)} at the end`
}

/** @param {string[]} columns @param {string[][]} rows */
export function markdown(columns, rows) {
  const line = (/** @type {string[]} */ cells) => `| ${cells.join(' | ')} |`.replaceAll('|  |', '| |')
  return [line(columns), `|${'---|'.repeat(columns.length)}`, ...rows.map(line)].join('\n')
}

/** @param {number} ms */
export function shown(ms) {
  return ms >= 1_000 ? `${Number((ms / 1_000).toFixed(2))} s` : `${format(ms)} ms`
}
