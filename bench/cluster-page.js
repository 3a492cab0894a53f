// The section of the page with the results of bench:cluster.
import { readFileSync, writeFileSync } from 'node:fs'
import { goalsTable, machineLine, markdown, pageFile, withSection } from './page.js'

/**
 * @typedef {object} Results
 * @property {{ cpu: string, cores: number, node: string, load: number }} machine
 * @property {import('./report.js').Result[]} results
 * @property {import('./report.js').Table[]} tables
 */

/** @param {string} resultsFile */
export function writePage(resultsFile) {
  /** @type {Results} */
  const results = JSON.parse(readFileSync(resultsFile, 'utf8'))
  writeFileSync(pageFile, withFigures(readFileSync(pageFile, 'utf8'), results))
}

/** Replaces the figures in the page. @param {string} page @param {Results} results */
export function withFigures(page, { machine, results, tables }) {
  const shown = tables.map(({ rows }) => {
    const columns = Object.keys(rows[0] ?? {})
    return markdown(
      columns,
      rows.map((row) => columns.map((column) => String(row[column] ?? '-'))),
    )
  })
  return withSection(page, 'bench:cluster', [`${machineLine(machine)}.`, goalsTable(results), ...shown].join('\n\n'))
}
