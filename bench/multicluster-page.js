// The section of the page with the results of bench:multicluster.
import { readFileSync, writeFileSync } from 'node:fs'
import { goalsTable, machineLine, pageFile, withSection } from './page.js'

/**
 * @typedef {object} Results
 * @property {{ cpu: string, cores: number, node: string, load: number }} machine
 * @property {import('./report.js').Result[]} results
 */

/** @param {string} resultsFile */
export function writePage(resultsFile) {
  /** @type {Results} */
  const results = JSON.parse(readFileSync(resultsFile, 'utf8'))
  writeFileSync(pageFile, withFigures(readFileSync(pageFile, 'utf8'), results))
}

/** Replaces the figures in the page. @param {string} page @param {Results} results */
export function withFigures(page, { machine, results }) {
  return withSection(page, 'bench:multicluster', `${machineLine(machine)}.\n\n${goalsTable(results)}`)
}
