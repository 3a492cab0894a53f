// The picture in the README: how long a crash and a clean handover take, with Tenure and with common alternatives.
import { join } from 'node:path'
import { shown } from './benchmarks-page.js'
import { picture } from './picture.js'

/**
 * The part of a row of results that the picture needs.
 *
 * @typedef {object} Handover
 * @property {string} server
 * @property {string} contender
 * @property {number} failOverMs
 * @property {number} [failOverP99Ms]
 * @property {number} handOverMs
 * @property {number} handOverP99Ms
 */

const root = join(import.meta.dirname, '..')
export const handoverPictureFile = join(root, 'docs/explanation/handover.svg')
export const readmeFile = join(root, 'README.md')

/** The name of the contender whose crash a guard process notices. */
export const guardedName = 'Tenure, releaseOnCrash'
/** The table of bench:stores and bench:kubernetes with all contenders. */
export const handoverTable = 'crash and clean handover'

const [begin, end] = ['<!-- picture of bench:all -->', '<!-- end of picture of bench:all -->']
const description =
  'From the crash of a leader, and from its release, to the next leader: Tenure beside the election of etcd3, an advisory lock of PostgreSQL, redlock and redis-semaphore'

/**
 * Returns the picture, or undefined before bench:stores has measured all contenders. It shows Kubernetes once
 * bench:kubernetes has measured them as well.
 *
 * @param {import('./published-pages.js').Results | undefined} stores
 * @param {import('./published-pages.js').Results | undefined} kubernetes
 */
export function handoverPicture(stores, kubernetes) {
  const onStores = rowsOf(stores)
  if (!onStores) return undefined
  const onKubernetes = rowsOf(kubernetes) ?? []
  // With its guard, Tenure has the same clean handover as without it. One bar for each server is enough.
  const rows = [...onKubernetes, ...onStores].filter(({ contender }) => contender !== 'Tenure')
  const ours = rows.filter(({ contender }) => contender === guardedName)
  const theirs = rows.filter(({ contender }) => contender !== guardedName)
  /** @param {(row: Handover) => number} value @param {(row: Handover) => number | undefined} p99 */
  const bars = (value, p99) =>
    [...ours, ...theirs].map((row) => ({
      label: `${row.server}: ${row.contender === guardedName ? 'Tenure' : row.contender}`,
      value: value(row),
      text: `${shown(value(row))}, p99 ${shown(p99(row) ?? NaN)}`,
      isOurs: row.contender === guardedName,
    }))
  const { leaseMs } = /** @type {{ settings: { leaseMs: number } }} */ (/** @type {unknown} */ (stores)).settings
  return picture([
    {
      title:
        'The leader crashes (SIGKILL): time to the next leader, median. Tenure with releaseOnCrash; without it, one lease',
      bars: bars(
        ({ failOverMs }) => failOverMs,
        ({ failOverP99Ms }) => failOverP99Ms,
      ),
      mark: { value: leaseMs, text: `lease, ${shown(leaseMs)}` },
    },
    {
      title: 'The leader releases its lease: time to the next leader, median',
      bars: bars(
        ({ handOverMs }) => handOverMs,
        ({ handOverP99Ms }) => handOverP99Ms,
      ),
    },
  ])
}

/** Shows the picture in the README. @param {string} readme */
export function withHandoverPicture(readme) {
  const [before, , after] = readme.split(new RegExp(`${begin}|${end}`))
  if (before === undefined || after === undefined) throw new Error(`${readmeFile} has no place for the picture`)
  const link = `[![${description}](docs/explanation/handover.svg)](docs/explanation/benchmarks.md)`
  return `${before}${begin}\n\n${link}\n\n${end}${after}`
}

/** @param {import('./published-pages.js').Results | undefined} results @returns {Handover[] | undefined} */
function rowsOf(results) {
  const rows = /** @type {Handover[] | undefined} */ (
    /** @type {unknown} */ (results?.tables?.find(({ name }) => name === handoverTable)?.rows)
  )
  return rows?.some(({ contender }) => contender === guardedName) ? rows : undefined
}
