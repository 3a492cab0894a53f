// The page and the picture with the results of bench:stores.
import { join } from 'node:path'
import { goalsTable, machineLine, markdown, shown } from './benchmarks-page.js'
import { picture } from './picture.js'
import { format } from './numbers.js'

/**
 * @typedef {object} Row
 * @property {string} server
 * @property {string} contender
 * @property {number} failOverMs
 * @property {number} [failOverP99Ms]
 * @property {number} slowestFailOverMs
 * @property {number} [deaths] how many crashes were measured
 * @property {number} handOverMs
 * @property {number} handOverP99Ms
 * @property {number | null} lossAfterLeaseMs null if the loss was not reported in time
 * @property {number} idleRequestsPerLease
 *
 * @typedef {object} Results
 * @property {import('./report.js').Machine} machine
 * @property {import('./report.js').Result[]} results
 * @property {{ leaseMs: number, hungForMs: number, releases: number, deaths: number, noticedDeaths?: number }} settings
 * @property {{ name: string, rows: Row[] }[]} tables
 */

export const pictureFile = join(import.meta.dirname, '../docs/explanation/benchmarks-stores.svg')

/** @param {Results} results */
export function figuresOf({ machine, results, settings, tables }) {
  const { leaseMs, hungForMs, releases, deaths, noticedDeaths } = settings
  const crashes =
    noticedDeaths === undefined ? `${deaths} deaths` : `${deaths} crashes (${noticedDeaths} where noticed)`
  const rows = rowsIn(tables).map((row) => [
    row.server,
    row.contender,
    failOverOf(row),
    `${shown(row.handOverMs)}, p99 ${shown(row.handOverP99Ms)}`,
    lossOf(row, hungForMs),
    format(row.idleRequestsPerLease),
  ])
  return [
    `${machineLine(machine)}; lease ${shown(leaseMs)}, ${crashes} and ${releases} releases of each, medians unless stated otherwise.`,
    markdown(
      [
        'server',
        '',
        'SIGKILL to the next leader',
        'release to the next leader',
        'hung server: the holder learns of its loss',
        'requests from an idle standby in a lease',
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
        isOurs: row.contender.startsWith('Tenure'),
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

/** @param {Row} row */
function failOverOf({ failOverMs, failOverP99Ms, slowestFailOverMs, deaths }) {
  if (failOverP99Ms === undefined) return `${shown(failOverMs)}, slowest ${shown(slowestFailOverMs)}`
  return `${shown(failOverMs)}, p99 ${shown(failOverP99Ms)} of ${deaths}`
}

/** @param {Row} row @param {number} hungForMs */
function lossOf({ lossAfterLeaseMs }, hungForMs) {
  if (lossAfterLeaseMs === null) return `not within ${shown(hungForMs)}`
  const text = shown(Math.abs(lossAfterLeaseMs))
  return lossAfterLeaseMs < 0 ? `${text} before the lease ends` : `${text} after the lease has ended`
}
