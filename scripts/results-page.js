// Makes docs/explanation/results.md from docs/explanation/results.json, which `npm run results` writes.
import { fileURLToPath } from 'node:url'

const file = (/** @type {string} */ name) => fileURLToPath(new URL(`../docs/explanation/${name}`, import.meta.url))
export const resultsFile = file('results.json')
export const resultsPageFile = file('results.md')

/**
 * @typedef {object} Run One run with faults, as `test/chaos/fault-record.ts` records it.
 * @property {string} test
 * @property {string} server
 * @property {number} seed
 * @property {number} seconds
 * @property {number} processes
 * @property {Record<string, number>} faults
 * @property {number} terms
 * @property {number} byDeath
 * @property {number} byRelease
 * @property {number} byExpiry
 * @property {number} byPause
 * @property {number} fencedWrites
 * @property {number} longestGapMs
 * @property {string[]} violations
 *
 * @typedef {object} SuiteResult
 * @property {string} path
 * @property {string} startedAt
 * @property {number} tookS
 * @property {string} commit
 * @property {string} node
 * @property {number} cores
 * @property {string} cpu
 * @property {number[]} loads The load of the last minute, before and after.
 * @property {{ passed: number, failed: number, skipped: number }} count
 * @property {string[]} failed The names of the failed tests.
 * @property {Run[]} runs
 */

/**
 * Returns the page.
 * @param {readonly SuiteResult[]} results
 */
export function resultsPage(results) {
  const runs = results.flatMap((result) => result.runs.map((run) => ({ result, run })))
  const total = (/** @type {(run: Run) => number} */ value) => runs.reduce((sum, { run }) => sum + value(run), 0)
  const overview = runs.map(({ result, run }) =>
    row([
      run.server,
      `[${nameOf(result)}](../../${result.path})`,
      `${run.seconds} s`,
      String(run.processes),
      String(faultsOf(run)),
      String(run.terms),
      `${run.byDeath} / ${run.byRelease} / ${run.byExpiry}`,
      String(run.fencedWrites),
      `${(run.longestGapMs / 1_000).toFixed(1)} s`,
      String(run.violations.length),
    ]),
  )
  return `# Results

\`npm run results\` runs the suites below, each alone, and writes this page. Each run starts real processes that campaign for one election on a real server, or on an emulator where its name says so. While they lead, they write to a guarded counter. Faults occur at random: in the processes, in the network between each process and the server, and in the server and its data. The logs of all processes are then checked against [the invariants](robustness.md#the-invariants). [Robustness](robustness.md) lists all suites. Most of them are not on this page, because they only pass or fail and record no figures.

In these ${runs.length} runs, ${total(faultsOf)} faults occurred in ${total(({ seconds }) => seconds)} s, ${total(({ processes }) => processes)} processes were started, and ${total(({ terms }) => terms)} terms were granted. The checks found ${countOf(total(({ violations }) => violations.length))}.

| server | suite | faults for | processes | faults | terms | ended by death / release / expiry | writes refused by fencing | longest time without a leader | violations |
|---|---|---|---|---|---|---|---|---|---|
${overview.join('\n')}

The longest time without a leader does not show how long a takeover takes: a run pauses the server, deletes its data, and cuts off all processes, sometimes at once. [The benchmarks](benchmarks.md) measure takeovers.

${results.map(section).join('\n')}`
}

/** @param {Run} run */
function faultsOf({ faults }) {
  return Object.values(faults).reduce((sum, count) => sum + count, 0)
}

/** @param {number} violations */
function countOf(violations) {
  return violations === 0 ? 'no violation' : violations === 1 ? 'one violation' : `${violations} violations`
}

/** @param {SuiteResult} result */
function nameOf({ path }) {
  return path.replace(/^.*\//, '').replace(/\..*$/, '')
}

/** @param {SuiteResult} result */
function section(result) {
  const { passed, failed, skipped } = result.count
  const [before = 0, after = 0] = result.loads
  const lines = result.runs.map((run) => {
    const faults = Object.entries(run.faults).map(([name, count]) => `${spaced(name)} ${count}`)
    return [
      `Faults on ${run.server}, seed ${run.seed}: ${faults.join(', ')}. Leaders that were paused past their lease: ${run.byPause}.`,
      ...run.violations.map((text) => `- Violation: ${text}`),
    ].join('\n\n')
  })
  return [
    `## ${nameOf(result)}\n`,
    `Run on ${result.startedAt.slice(0, 10)} in ${result.tookS} s, at commit ${result.commit}, with Node.js ${result.node} on ${result.cores} cores (${result.cpu}). The load of the machine was ${before} before and ${after} after. Of the tests in this file, ${passed} passed, ${failed} failed and ${skipped} were skipped.\n`,
    ...result.failed.map((name) => `- Failed: ${name}\n`),
    ...lines.map((line) => `${line}\n`),
  ].join('\n')
}

/**
 * Returns the name of a fault as words.
 * @param {string} name
 */
function spaced(name) {
  return name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
}

/** @param {readonly string[]} cells */
function row(cells) {
  return `| ${cells.join(' | ')} |`
}
