// npm run bench: the figures that the project promises. Where possible, each is a ratio within one run.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { measureExpiry } from './expiry.js'
import { measureImport, packedBytes } from './footprint.js'
import { format, median } from './numbers.js'
import { readOptions, Report } from './report.js'
import { measureTakeOvers } from './take-over.js'

const options = readOptions('library')
const { quick } = options
const rounds = quick ? 2 : 15
const figures = await Report.open(options)

await benchIsLeader()
await benchManyElectors(quick ? 200 : 10_000, 1, 'each leads its own election')
await benchManyElectors(quick ? 100 : 5_000, 2, 'half lead, half stand by')
await benchTakeOvers()
await benchExpiry()
await benchJobs(quick ? 10 : 300, quick ? 100 : 1_000)
benchFootprint()
figures.finish()

async function benchIsLeader() {
  const pairs = await runJson('is-leader.js', quick ? ['3', '20000'] : ['15', '500000'])
  const ratio = median(pairs.map((/** @type {Pair} */ { clockNs, isLeaderNs }) => isLeaderNs / clockNs))
  /** @typedef {{ clockNs: number, isLeaderNs: number }} Pair */
  const clockNs = median(pairs.map((/** @type {Pair} */ pair) => pair.clockNs))
  const isLeaderNs = median(pairs.map((/** @type {Pair} */ pair) => pair.isLeaderNs))
  figures.add({
    name: 'isLeader() while leading',
    value: ratio,
    unit: 'x',
    goal: 3,
    detail: `of one performance.now(): ${format(isLeaderNs)} ns and ${format(clockNs)} ns`,
  })
}

/**
 * @param {number} elections
 * @param {number} candidates
 * @param {string} what
 */
async function benchManyElectors(elections, candidates, what) {
  const steadyMs = quick ? 1_000 : 20_000
  const args = [elections, candidates, steadyMs].map(String)
  const many = await runJson('many-electors.js', args)
  const name = `${elections * candidates} electors, ${what}`
  if (many.led !== elections) throw new Error(`only ${many.led} of ${elections} elections had a leader at the end`)
  figures.add({
    name: `${name}: CPU`,
    value: many.cpuShare * 100,
    unit: '%',
    goal: 10,
    detail: `of one core over ${steadyMs / 1000} s, lease 15 s`,
  })
  figures.add({
    name: `${name}: heap`,
    value: many.heapBytesEach / 1024,
    unit: 'KB',
    goal: 4,
    detail: "each, its share of the store's records included",
  })
  figures.add({
    name: `${name}: start`,
    value: many.startMs / 1000,
    unit: 's',
    goal: 1,
    detail: `until all lead who can (CPU ${format(many.startCpuMs / 1000)} s)`,
  })
  figures.add({
    name: `${name}: stop`,
    value: many.stopMs / 1000,
    unit: 's',
    goal: 1,
    detail: `until all are released (CPU ${format(many.stopCpuMs / 1000)} s)`,
  })
}

async function benchTakeOvers() {
  const { killed, released, writesMs } = await measureTakeOvers(rounds)
  const kernelMs = median(killed.map((round) => round.kernelMs))
  const ratio = median(killed.map((round) => round.takeOverMs / round.kernelMs))
  const slowest = Math.max(...killed.map((round) => round.takeOverMs))
  figures.add({
    name: 'file store: SIGKILL of the leader to the next',
    value: median(killed.map((round) => round.takeOverMs)),
    unit: 'ms',
    goal: 50,
    detail: `median of ${rounds}, slowest ${format(slowest)} ms, lease 15 s; the kernel alone tells after ${format(kernelMs)} ms: ${format(ratio)} x`,
  })
  figures.add({
    name: 'file store: release to the next leader',
    value: median(released),
    unit: 'ms',
    goal: 20,
    detail: `median of ${rounds}, slowest ${format(Math.max(...released))} ms, its writes to the disk included; the same writes by hand take ${format(median(writesMs))} ms: ${format(median(released.map((ms, round) => ms / (writesMs[round] ?? NaN))))} x`,
  })
}

async function benchExpiry() {
  const { leaseDurationMs, lateMs } = await measureExpiry(rounds)
  figures.add({
    name: 'memory store: end of the lease to the next leader',
    value: (Math.max(...lateMs) / leaseDurationMs) * 100,
    unit: '%',
    goal: 1,
    detail: `of a lease of ${leaseDurationMs} ms: the slowest of ${rounds}, ${format(Math.max(...lateMs))} ms; median ${format(median(lateMs))} ms`,
  })
}

/**
 * @param {number} times
 * @param {number} count
 */
async function benchJobs(times, count) {
  const steadyMs = quick ? 1_000 : 20_000
  const jobs = await runJson('job-start.js', [times, count, steadyMs].map(String))
  const p99 = (/** @type {number[]} */ values) =>
    values.toSorted((one, other) => one - other)[Math.floor(values.length * 0.99)] ?? NaN
  figures.add({
    name: 'file store: due time of a job to its start, p99',
    value: p99(jobs.lateMs),
    unit: 'ms',
    goal: 50,
    detail: `of ${times}, median ${format(median(jobs.lateMs))} ms, its time on the disk by then; a timer and a write alone: median ${format(median(jobs.bareMs))} ms, p99 ${format(p99(jobs.bareMs))} ms`,
  })
  addWaitingJobs(`${count} jobs that wait, each with its own leader`, jobs.own, steadyMs)
  addWaitingJobs(`${count} jobs that wait, one leader for all`, jobs.shared, steadyMs)
}

/**
 * These jobs must not cost more than ten thousand electors.
 *
 * @param {string} name
 * @param {{ cpuShare: number, heapBytes: number, startMs: number, stopMs: number }} jobs
 * @param {number} steadyMs
 */
function addWaitingJobs(name, jobs, steadyMs) {
  const detail = `of one core over ${steadyMs / 1000} s, lease 15 s`
  figures.add({ name: `${name}: CPU`, value: jobs.cpuShare * 100, unit: '%', goal: 10, detail })
  figures.add({
    name: `${name}: heap`,
    value: jobs.heapBytes / 1024 ** 2,
    unit: 'MB',
    goal: 40,
    detail: 'with their records',
  })
  figures.add({ name: `${name}: start`, value: jobs.startMs / 1000, unit: 's', goal: 1, detail: 'until all are noted' })
  figures.add({
    name: `${name}: stop`,
    value: jobs.stopMs / 1000,
    unit: 's',
    goal: 1,
    detail: 'until all are released',
  })
}

function benchFootprint() {
  const runs = measureImport(rounds)
  const emptyMs = median(runs.map((run) => run.emptyMs))
  figures.add({
    name: "import 'tenure'",
    value: median(runs.map((run) => run.importMs - run.emptyMs)),
    unit: 'ms',
    goal: 15,
    detail: `more than an empty program, which takes ${format(emptyMs)} ms; median of the differences of ${rounds} pairs`,
  })
  // All stores, the Kubernetes client, the conformance suite, and the simulator are separate entry points that load
  // only when imported. The code keeps all names and a line for each statement, because a stack trace must be readable,
  // and source maps would cost more than shorter names would save.
  const detail = 'npm pack: code with all its names, and declarations, of every entry point'
  figures.add({ name: 'the package, packed', value: packedBytes() / 1000, unit: 'KB', goal: 200, detail })
}

/**
 * Runs a file of this folder in its own process, which prints JSON.
 *
 * @param {string} file
 * @param {string[]} args
 */
async function runJson(file, args) {
  const program = [join(import.meta.dirname, file), ...args]
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', ...program])
  return JSON.parse(stdout)
}
