// Updates docs/explanation/benchmarks.md.
import { join } from 'node:path'
import { format } from './numbers.js'

export const pageFile = join(import.meta.dirname, '../docs/explanation/benchmarks.md')

/**
 * Replaces the figures that a command wrote to the page earlier.
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

/**
 * Describes the machine, the load, and the commit at which the figures were measured. @param
 * {import('./report.js').Machine} machine
 */
export function machineLine({ cores, cpu, node, load, loadBefore, freeShare, bareLoopMs, commit }) {
  const where = `On ${cores} cores (${cpu}), Node.js ${node}`
  if (loadBefore === undefined || freeShare === undefined) return `${where}, load ${format(load)} at the end`
  const free = `a bare loop on every core got ${Math.round(freeShare * 100)} % of them before (${format(bareLoopMs ?? NaN)} ms for a million turns)`
  return `${where}, commit ${commit}, load ${format(loadBefore)} before and ${format(load)} at the end; ${free}`
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
