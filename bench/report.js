// Prints figures next to their goals and writes them to a file.
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { format } from './numbers.js'
import { writePages } from './published-pages.js'
import { busyMessage, isQuiet, measureQuietness } from './quiet.js'

/** The exit code of a benchmark that refused to measure on a busy machine. */
export const busyExitCode = 3

/**
 * @typedef {object} Result
 * @property {string} name
 * @property {number} value
 * @property {string} unit
 * @property {number} goal the value must be below it
 * @property {true} [atMost] the value may equal the goal
 * @property {boolean} passed
 * @property {string} detail
 */

/**
 * Rows that all have the same columns.
 *
 * @typedef {{ name: string, rows: Record<string, number | string | null>[] }} Table
 */

/**
 * Where and how a benchmark was measured.
 *
 * @typedef {object} Machine
 * @property {string | undefined} cpu
 * @property {number} cores
 * @property {string} node
 * @property {number} load the load average at the end
 * @property {number} [loadBefore]
 * @property {number} [freeShare] see quiet.js
 * @property {number} [bareLoopMs] see quiet.js
 * @property {string} [commit]
 *
 * @typedef {object} Options
 * @property {string} name the benchmark, whose results are in bench/NAME-results.json
 * @property {boolean} quick
 * @property {string | undefined} file where the results are written
 * @property {boolean} isPublished whether the results are also written to the documentation
 */

/**
 * The options of all benchmarks. --quick shows within seconds that everything runs. Its figures mean little and are not
 * published. --dry-run measures everything, even on a busy machine, and writes nothing. --results FILE writes the
 * results to this file only.
 *
 * @param {string} name
 * @param {string[]} [args]
 * @returns {Options}
 */
export function readOptions(name, args) {
  const options = /** @type {const} */ ({
    quick: { type: 'boolean', default: false },
    'dry-run': { type: 'boolean', default: false },
    results: { type: 'string' },
  })
  const { quick, results, 'dry-run': isDryRun } = parseArgs({ args, options }).values
  const isPublished = !quick && !isDryRun && results === undefined
  return { name, quick, file: isPublished ? resultsFileOf(name) : results, isPublished }
}

/** @param {string} name */
export function resultsFileOf(name) {
  return join(import.meta.dirname, `${name}-results.json`)
}

export class Report {
  /** @type {Result[]} */
  #results = []
  /** @type {Table[]} */
  #tables = []
  /** @type {Record<string, number> | undefined} */
  #settings
  #options
  #before

  /**
   * Ends the process if the results are to be published and the machine is busy.
   *
   * @param {Options} options
   */
  static async open(options) {
    const quietness = await measureQuietness(options.quick ? 200 : 3_000)
    if (options.isPublished && !isQuiet(quietness)) {
      console.error(busyMessage(quietness))
      process.exit(busyExitCode)
    }
    return new Report(options, { ...quietness, loadBefore: loadavg()[0] ?? NaN })
  }

  /**
   * @param {Options} options
   * @param {import('./quiet.js').Quietness & { loadBefore: number }} before
   */
  constructor(options, before) {
    this.#options = options
    this.#before = before
  }

  /** @param {Omit<Result, 'passed'>} result */
  add(result) {
    const passed = result.value < result.goal || (result.atMost === true && result.value === result.goal)
    this.#results.push({ ...result, passed })
    const value = `${format(result.value)} ${result.unit}`
    const mark = passed ? 'pass' : 'MISS'
    const goal = `${result.atMost ? '<=' : '<'} ${result.goal}`
    console.log(`${mark}  ${result.name.padEnd(48)}${value.padStart(12)}  goal ${goal.padEnd(8)}${result.detail}`)
  }

  /**
   * @param {Table['name']} name
   * @param {Table['rows']} rows
   */
  addTable(name, rows) {
    this.#tables.push({ name, rows })
    const columns = Object.keys(rows[0] ?? {})
    const lines = [columns, ...rows.map((row) => columns.map((column) => String(row[column] ?? '-')))]
    const widths = columns.map((_, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)))
    console.log(`\n${name}`)
    for (const line of lines) console.log(line.map((cell, index) => cell.padStart(widths[index] ?? 0)).join('   '))
  }

  /** Adds the settings that a reader needs to interpret the figures. @param {Record<string, number>} settings */
  describe(settings) {
    this.#settings = settings
  }

  finish() {
    const { name, quick, file, isPublished } = this.#options
    const results = this.#results
    const missed = results.filter(({ passed }) => !passed).length
    const machine = { ...machineNow(), ...this.#before }
    console.log(`\n${results.length - missed} of ${results.length} goals met. ${JSON.stringify(machine)}`)
    const tables = this.#tables.length > 0 ? this.#tables : undefined
    const content = JSON.stringify({ quick, machine, settings: this.#settings, results, tables }, undefined, 2)
    if (file !== undefined) writeFileSync(file, `${content}\n`)
    if (isPublished) writePages(name)
    // The figures of a quick run prove nothing, so only a full run fails the command.
    if (missed > 0 && !quick) process.exitCode = 1
  }
}

/** @returns {Machine} */
function machineNow() {
  const [cpu] = cpus()
  const load = loadavg()[0] ?? NaN
  return { cpu: cpu?.model, cores: cpus().length, node: process.version, load, commit: commitNow() }
}

/** The commit that is checked out. Files that the benchmarks themselves write do not count as changes. */
function commitNow() {
  const git = (/** @type {string[]} */ ...args) =>
    execFileSync('git', args, { cwd: join(import.meta.dirname, '..'), encoding: 'utf8' }).trim()
  const written = [':!bench/*-results.json', ':!docs', ':!README.md', ':!packages/tenure/README.md']
  const changed = git('status', '--porcelain', '--', '.', ...written)
  return `${git('rev-parse', '--short=10', 'HEAD')}${changed === '' ? '' : ' with local changes'}`
}
