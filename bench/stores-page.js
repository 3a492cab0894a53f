// The page and the picture with the results of bench:stores.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { goalsTable, machineLine, markdown, pageFile, shown, withSection } from './page.js'
import { picture } from './picture.js'
import { format } from './report.js'

/**
 * @typedef {object} Row
 * @property {string} server
 * @property {string} contender
 * @property {number} failOverMs
 * @property {number} slowestFailOverMs
 * @property {number} handOverMs
 * @property {number} handOverP99Ms
 * @property {number | null} lossAfterLeaseMs null if it was not reported while that was watched for
 * @property {number} idleRequestsPerLease
 *
 * @typedef {object} Results
 * @property {{ cpu: string, cores: number, node: string, load: number }} machine
 * @property {import('./report.js').Result[]} results
 * @property {{ leaseMs: number, hungForMs: number, releases: number, deaths: number }} settings
 * @property {{ rows: Row[] }[]} tables
 */

export const pictureFile = join(import.meta.dirname, '../docs/explanation/benchmarks-stores.svg')

/** @param {string} resultsFile */
export function writePage(resultsFile) {
  /** @type {Results} */
  const results = JSON.parse(readFileSync(resultsFile, 'utf8'))
  writeFileSync(pageFile, withFigures(readFileSync(pageFile, 'utf8'), results))
  writeFileSync(pictureFile, pictureOf(results))
}

/** Replaces the figures in the page. @param {string} page @param {Results} results */
export function withFigures(page, results) {
  return withSection(page, 'bench:stores', figuresOf(results))
}

/** @param {Results} results */
function figuresOf({ machine, results, settings, tables }) {
  const { leaseMs, hungForMs, releases, deaths } = settings
  const rows = rowsIn(tables).map((row) => [
    row.server,
    row.contender,
    `${shown(row.failOverMs)}, slowest ${shown(row.slowestFailOverMs)}`,
    `${shown(row.handOverMs)}, p99 ${shown(row.handOverP99Ms)}`,
    lossOf(row, hungForMs),
    format(row.idleRequestsPerLease),
  ])
  return [
    `${machineLine(machine)}; lease ${shown(leaseMs)}, ${deaths} deaths and ${releases} releases of each, medians unless it says otherwise.`,
    markdown(
      [
        'server',
        '',
        'SIGKILL to the next leader',
        'release to the next leader',
        'hung server: the holder learns of its loss',
        'requests of an idle standby in a lease',
      ],
      rows,
    ),
    goalsTable(results),
  ].join('\n\n')
}

/** @param {Results} results */
export function pictureOf({ settings, tables }) {
  const { leaseMs, hungForMs } = settings
  const rows = rowsIn(tables)
  /** @param {(row: Row) => number} value @param {(row: Row) => string} text */
  const bars = (value, text) =>
    rows.map((row) => {
      return {
        label: `${row.server}: ${row.contender}`,
        value: value(row),
        text: text(row),
        isOurs: row.contender === 'Tenure',
      }
    })
  return picture([
    {
      title: 'From SIGKILL of the leader to the next leader, median',
      bars: bars(
        ({ failOverMs }) => failOverMs,
        ({ failOverMs }) => shown(failOverMs),
      ),
      mark: { value: leaseMs, text: 'lease' },
    },
    {
      title: 'From a release to the next leader, median',
      bars: bars(
        ({ handOverMs }) => handOverMs,
        ({ handOverMs }) => shown(handOverMs),
      ),
    },
    {
      title: 'The server hangs: from the last renewal until the holder learns that it no longer leads',
      bars: bars(
        ({ lossAfterLeaseMs }) => (lossAfterLeaseMs === null ? hungForMs : leaseMs + lossAfterLeaseMs),
        ({ lossAfterLeaseMs }) =>
          lossAfterLeaseMs === null ? `not within ${shown(hungForMs)}` : shown(leaseMs + lossAfterLeaseMs),
      ),
      mark: { value: leaseMs, text: 'the lease ends: another may lead' },
    },
  ])
}

/** @param {Results['tables']} tables */
function rowsIn([table]) {
  if (!table) throw new Error('the results have no table')
  return table.rows
}

/** @param {Row} row @param {number} hungForMs */
function lossOf({ lossAfterLeaseMs }, hungForMs) {
  if (lossAfterLeaseMs === null) return `not within ${shown(hungForMs)}`
  const text = shown(Math.abs(lossAfterLeaseMs))
  return lossAfterLeaseMs < 0 ? `${text} before the lease ends` : `${text} after the lease has ended`
}
