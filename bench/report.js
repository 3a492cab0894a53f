// Prints figures beside their goals and writes them to a file.
import { writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { parseArgs } from 'node:util'

/**
 * @typedef {object} Result
 * @property {string} name
 * @property {number} value
 * @property {string} unit
 * @property {number} goal the value must be below it
 * @property {true} [atMost] the value may be the goal itself too
 * @property {boolean} passed
 * @property {string} detail
 */

/**
 * Rows that all have the same columns.
 *
 * @typedef {{ name: string, rows: Record<string, number | string | null>[] }} Table
 */

/**
 * The options of all benchmarks. --quick shows within seconds that everything runs, but its figures mean little.
 * --results FILE sets the output file.
 *
 * @param {string} resultsFile
 */
export function readOptions(resultsFile) {
  const options = /** @type {const} */ ({
    quick: { type: 'boolean', default: false },
    results: { type: 'string', default: resultsFile },
  })
  return parseArgs({ options }).values
}

export class Report {
  /** @type {Result[]} */
  #results = []
  /** @type {Table[]} */
  #tables = []
  /** @type {Record<string, number> | undefined} */
  #settings
  #quick
  #file

  /** @param {{ quick: boolean, results: string }} options */
  constructor({ quick, results }) {
    this.#quick = quick
    this.#file = results
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

  /** Adds the settings that a reader of the figures must know. @param {Record<string, number>} settings */
  describe(settings) {
    this.#settings = settings
  }

  finish() {
    const results = this.#results
    const machine = { cpu: cpus()[0]?.model, cores: cpus().length, node: process.version, load: loadavg()[0] }
    const missed = results.filter(({ passed }) => !passed).length
    console.log(`\n${results.length - missed} of ${results.length} goals met. ${JSON.stringify(machine)}`)
    const tables = this.#tables.length > 0 ? this.#tables : undefined
    const settings = this.#settings
    const content = JSON.stringify({ quick: this.#quick, machine, settings, results, tables }, undefined, 2)
    writeFileSync(this.#file, `${content}\n`)
    // The figures of a quick run prove nothing, so only a full run fails the command.
    if (missed > 0 && !this.#quick) process.exitCode = 1
  }
}

/** @param {number} value */
export function format(value) {
  return Math.abs(value) >= 100 ? String(Math.round(value)) : value.toPrecision(3)
}

/** @param {number[]} values */
export function median(values) {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  return ((sorted[Math.floor(middle)] ?? NaN) + (sorted[Math.ceil(middle) - 1] ?? NaN)) / 2
}

/** @param {number[]} values @param {number} share */
export function percentile(values, share) {
  return values.toSorted((a, b) => a - b)[Math.ceil(values.length * share) - 1] ?? NaN
}
