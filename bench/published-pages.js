// The documentation that each benchmark writes.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageReadme, packageReadmeFile } from '../scripts/package-readme.js'
import { handoverPicture, handoverPictureFile, readmeFile, withHandoverPicture } from './handover-picture.js'
import { goalsTable, machineLine, markdown, pageFile, withSection } from './benchmarks-page.js'
import { figuresOf as figuresOfStores, pictureFile, pictureOf } from './stores-page.js'

/**
 * @typedef {object} Results
 * @property {boolean} quick
 * @property {import('./report.js').Machine} machine
 * @property {import('./report.js').Result[]} results
 * @property {import('./report.js').Table[]} [tables]
 */

/** The commands with their sections of the page, by the names of the benchmarks. */
export const commands = {
  library: 'bench',
  stores: 'bench:stores',
  shards: 'bench:shards',
  kubernetes: 'bench:kubernetes',
  service: 'bench:service',
  cluster: 'bench:cluster',
  multicluster: 'bench:multicluster',
  page: 'bench:page',
}

/** The results in these sections are from before results named a commit. */
const shownWithoutCommit = ['stores', 'cluster', 'multicluster']

/** @param {string} name a benchmark whose results have just been written */
export function writePages(name) {
  writeFileSync(pageFile, withResults(readFileSync(pageFile, 'utf8'), name, readResults(name)))
  const stores = readResults('stores')
  if (name === 'stores') writeFileSync(pictureFile, pictureOf(asStores(stores)))
  const handovers = handoverPicture(stores, readResults('kubernetes'))
  if (handovers === undefined) return
  writeFileSync(handoverPictureFile, handovers)
  writeFileSync(readmeFile, withHandoverPicture(readFileSync(readmeFile, 'utf8')))
  writeFileSync(packageReadmeFile, packageReadme())
}

/** @param {string} name @returns {Results | undefined} undefined if it was never measured */
export function readResults(name) {
  const file = join(import.meta.dirname, `${name}-results.json`)
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined
}

/**
 * Replaces the figures of a benchmark in the page.
 *
 * @param {string} page
 * @param {string} name
 * @param {Results | undefined} results
 */
export function withResults(page, name, results) {
  const command = /** @type {Record<string, string>} */ (commands)[name]
  if (command === undefined) throw new Error(`there is no benchmark "${name}"`)
  return withSection(page, command, textOf(name, results) ?? `\`npm run ${command}\` writes its results here.`)
}

/** @param {string} name @param {Results | undefined} results */
function textOf(name, results) {
  if (!results || (results.machine.commit === undefined && !shownWithoutCommit.includes(name))) return undefined
  if (name === 'stores') return figuresOfStores(asStores(results))
  const tables = (results.tables ?? []).map(({ rows }) => {
    const columns = Object.keys(rows[0] ?? {})
    return markdown(
      columns,
      rows.map((row) => columns.map((column) => String(row[column] ?? '-'))),
    )
  })
  return [`${machineLine(results.machine)}.`, goalsTable(results.results), ...tables].join('\n\n')
}

/** @param {Results | undefined} results of bench:stores */
function asStores(results) {
  return /** @type {import('./stores-page.js').Results} */ (/** @type {unknown} */ (results))
}
