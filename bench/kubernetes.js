// npm run bench:kubernetes: Tenure and client-go side by side, on one API server, at the same time, and with the same
// timings.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { load } from '../scripts/load.js'
import { Fleet, startTenure } from './kubernetes-fleet.js'
import { benchPatience } from './kubernetes-patience.js'
import { benchRolling } from './kubernetes-rolling.js'
import { format, median, percentile } from './numbers.js'
import { guardedName, handoverTable } from './handover-picture.js'
import { readOptions, Report } from './report.js'

/** The only part to run. Its results are printed and never published, because the others would be missing. */
const only = process.env['ONLY']
const options = readOptions('kubernetes', [...process.argv.slice(2), ...(only === undefined ? [] : ['--dry-run'])])
const { quick } = options
const figures = await Report.open(options)
const { startCluster } = /** @type {typeof import('../test/servers/cluster.ts')} */ (
  await load('test/servers/cluster.ts')
)
const { kubeConfigOf } = /** @type {typeof import('../test/kubernetes/kube-config.ts')} */ (
  await load('test/kubernetes/kube-config.ts')
)
const { startClientGo } = /** @type {typeof import('../test/servers/client-go.ts')} */ (
  await load('test/servers/client-go.ts')
)

/** @typedef {import('./kubernetes-fleet.js').Timings} Timings */

/** The defaults of Tenure and client-go. */
const usual = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000 }
/** Short, because each measured crash takes a whole lease. The same duration as in bench:stores. */
const short = quick
  ? { leaseDurationMs: 3_000, renewDeadlineMs: 2_000, retryPeriodMs: 400 }
  : { leaseDurationMs: 5_000, renewDeadlineMs: 3_300, retryPeriodMs: 700 }
const replicas = 3
/** Leaders write, standbys read. */
const writes = /^(create|update|patch)$/
const reads = /^(get|list|watch)$/

const folder = mkdtempSync(join(tmpdir(), 'tenure-bench-'))
const auditLog = join(folder, 'audit.log')
const cluster = await startCluster({ flags: auditFlags() })
const kubeConfig = join(folder, 'kubeconfig')
writeFileSync(kubeConfig, kubeConfigOf(cluster))
/** The parts, in the order in which they run. The environment variable ONLY selects a single part. */
const parts = {
  patience: () => benchPatience(cluster, figures, usual, patience()),
  handovers: async () => reportRows(await benchRequestsAndReleases(quick ? short : usual), await benchDeaths(short)),
  rolling: () => benchRollingUpdates(short),
}
try {
  for (const [name, run] of Object.entries(parts)) {
    if (only === undefined || only === name) await run()
  }
} finally {
  await cluster.stop()
  rmSync(folder, { recursive: true, force: true })
}
figures.finish()

/** @param {Timings} timings */
async function benchRequestsAndReleases(timings) {
  const fleets = await startFleets('steady', timings)
  const sparing = startTenure(kubeConfig, 'steady-sparing', 'replica-1', {
    ...timings,
    renewIntervalMs: timings.leaseDurationMs / 3,
  })
  await sparing.first('started')
  const windowMs = quick ? 6_000 : 120_000
  console.log(`counting requests for ${windowMs / 1000} s ...`)
  const fromMs = Date.now()
  await sleep(windowMs)
  const untilMs = Date.now()
  // The audit log is written slightly later than the requests that it records.
  await sleep(1_000)
  const perMinute = (/** @type {string} */ lease, /** @type {RegExp} */ verb) =>
    (countRequests(lease, verb, fromMs, untilMs) * 60_000) / windowMs
  const standby = { tenure: perMinute('steady-tenure', reads), peer: perMinute('steady-client-go', reads) }
  const leader = {
    tenure: perMinute('steady-tenure', writes),
    sparing: perMinute('steady-sparing', writes),
    peer: perMinute('steady-client-go', writes),
  }
  // A window may start or end between a request of Tenure and one of client-go.
  const toTenths = (/** @type {number} */ value) => Math.round(value * 10) / 10
  const standbys = replicas - 1
  figures.add({
    name: 'requests from an idle standby',
    value: standby.tenure / standby.peer,
    unit: 'x',
    goal: 0.25,
    detail: `of client-go's: ${format(standby.tenure / standbys)} and ${format(standby.peer / standbys)} per minute, ${show(timings)}`,
  })
  figures.add({
    name: 'requests from a leader',
    value: toTenths(leader.tenure / leader.peer),
    unit: 'x',
    goal: 1,
    atMost: true,
    detail: `of client-go's: ${format(leader.tenure)} and ${format(leader.peer)} per minute`,
  })
  figures.add({
    name: 'requests from a leader, renewIntervalMs at a third',
    value: toTenths(leader.sparing / leader.peer),
    unit: 'x',
    goal: 0.5,
    atMost: true,
    detail: `of client-go's: ${format(leader.sparing)} and ${format(leader.peer)} per minute`,
  })

  const rounds = quick ? 2 : 30
  console.log(`${rounds} clean handovers ...`)
  const handOvers = await endLeaders(fleets, 'SIGTERM', rounds)
  const { tenure, peer } = handOvers
  figures.add({
    name: 'clean release to the next leader, median',
    value: median(tenure) / median(peer),
    unit: 'x',
    goal: 0.1,
    detail: `of client-go's: ${format(median(tenure))} and ${format(median(peer))} ms, ${rounds} rounds, ${show(timings)}`,
  })
  figures.add({
    name: 'clean release to the next leader, slowest',
    value: Math.max(...tenure),
    unit: 'ms',
    goal: 100,
    detail: `client-go's: ${format(Math.max(...peer))} ms`,
  })
  await Promise.all([fleets.end(), sparing.kill('SIGKILL')])
  return handOvers
}

/** @param {Timings} timings */
async function benchDeaths(timings) {
  const fleets = await startFleets('deaths', timings)
  const rounds = quick ? 2 : 20
  console.log(`${rounds} deaths of a leader ...`)
  const failOvers = await endLeaders(fleets, 'SIGKILL', rounds)
  // More rounds, because these are short.
  const noticed = quick ? 2 : 100
  while (failOvers.guarded.length < noticed) failOvers.guarded.push(await fleets.guarded.endLeader('SIGKILL'))
  const { tenure, guarded, peer } = failOvers
  figures.add({
    name: 'SIGKILL to the next leader, median',
    value: median(tenure) / median(peer),
    unit: 'x',
    goal: 1,
    detail: `of client-go's: ${format(median(tenure))} and ${format(median(peer))} ms, ${rounds} rounds, ${show(timings)}`,
  })
  figures.add({
    name: 'SIGKILL to the next leader, slowest',
    value: Math.max(...tenure) - timings.leaseDurationMs,
    unit: 'ms',
    goal: 300,
    detail: `more than the lease; client-go's: ${format(Math.max(...peer) - timings.leaseDurationMs)} ms`,
  })
  figures.add({
    name: 'SIGKILL to the next leader with releaseOnCrash, p99',
    value: percentile(guarded, 0.99),
    unit: 'ms',
    goal: 100,
    detail: `median ${format(median(guarded))} ms, slowest ${format(Math.max(...guarded))} ms, ${guarded.length} rounds`,
  })
  await fleets.end()
  return failOvers
}

/** @param {Timings} timings */
async function benchRollingUpdates(timings) {
  const { url: server, caFile, adminToken: token } = cluster
  /** @param {number} generation */
  const withGeneration = (generation) => ({ ...timings, present: true, generation })
  /** Five members and the two free seats after them are read in two intervals. One more allows for a busy machine. */
  const settleMs = 3 * timings.retryPeriodMs
  await benchRolling(
    {
      newer: (identity, generation) => startTenure(kubeConfig, 'rolling-newer', identity, withGeneration(generation)),
      plain: (identity) => startTenure(kubeConfig, 'rolling-tenure', identity, timings),
      peer: (identity) => startClientGo({ server, caFile, token, lease: 'rolling-client-go', identity, ...timings }),
    },
    figures,
    {
      replicas: quick ? 3 : 5,
      rounds: quick ? 1 : 10,
      settleMs,
      // A process needs eight intervals to read all 32 seats for the first time.
      betweenMs: 10 * timings.retryPeriodMs,
      detail: `${show(timings)}, each new replica ran for ${settleMs / 1000} s before the next was ended`,
    },
  )
}

/** @typedef {{ tenure: number[], guarded: number[], peer: number[] }} TookMs */

/** @param {TookMs} handOvers @param {TookMs} failOvers */
function reportRows(handOvers, failOvers) {
  const rounded = (/** @type {number} */ ms) => Math.round(ms * 10) / 10
  /** @param {string} contender @param {keyof TookMs} kind */
  const rowOf = (contender, kind) => ({
    server: 'Kubernetes',
    contender,
    failOverMs: rounded(median(failOvers[kind])),
    failOverP99Ms: rounded(percentile(failOvers[kind], 0.99)),
    deaths: failOvers[kind].length,
    handOverMs: rounded(median(handOvers[kind])),
    handOverP99Ms: rounded(percentile(handOvers[kind], 0.99)),
    releases: handOvers[kind].length,
  })
  figures.addTable(handoverTable, [
    rowOf('Tenure', 'tenure'),
    rowOf(guardedName, 'guarded'),
    rowOf('client-go', 'peer'),
  ])
}

/**
 * Starts three replicas of each kind: Tenure, Tenure with a guard, and client-go. Each kind has its own Lease.
 *
 * @param {string} name
 * @param {Timings} timings
 */
async function startFleets(name, timings) {
  const { url: server, caFile, adminToken: token } = cluster
  const settleMs = timings.retryPeriodMs / 2
  const tenure = new Fleet((identity) => startTenure(kubeConfig, `${name}-tenure`, identity, timings), settleMs)
  const guarded = new Fleet(
    (identity) => startTenure(kubeConfig, `${name}-guarded`, identity, timings, 'kubernetes-guarded.js'),
    settleMs,
  )
  const peer = new Fleet(
    (identity) => startClientGo({ server, caFile, token, lease: `${name}-client-go`, identity, ...timings }),
    settleMs,
  )
  for (let count = 0; count < replicas; count++) await Promise.all([tenure.add(), guarded.add(), peer.add()])
  return { tenure, guarded, peer, end: () => Promise.all([tenure.end(), guarded.end(), peer.end()]) }
}

/**
 * @param {{ tenure: Fleet, guarded: Fleet, peer: Fleet }} fleets
 * @param {NodeJS.Signals} signal
 * @param {number} rounds
 */
async function endLeaders(fleets, signal, rounds) {
  /** @type {TookMs} */
  const took = { tenure: [], guarded: [], peer: [] }
  const kinds = /** @type {const} */ (['tenure', 'guarded', 'peer'])
  for (let round = 0; round < rounds; round++) {
    await Promise.all(kinds.map(async (kind) => took[kind].push(await fleets[kind].endLeader(signal))))
  }
  return took
}

/**
 * @param {string} lease
 * @param {RegExp} verb
 * @param {number} fromMs
 * @param {number} untilMs
 */
function countRequests(lease, verb, fromMs, untilMs) {
  const seen = new Set()
  for (const line of readFileSync(auditLog, 'utf8').split('\n').filter(Boolean)) {
    const request = JSON.parse(line)
    const atMs = Date.parse(request.requestReceivedTimestamp)
    const isAbout = request.objectRef?.name === lease || request.requestURI.includes(`metadata.name%3D${lease}&`)
    if (isAbout && verb.test(request.verb) && atMs >= fromMs && atMs < untilMs) seen.add(request.auditID)
  }
  return seen.size
}

/** The API server's own log of requests. */
function auditFlags() {
  const policy = join(folder, 'audit-policy.json')
  const rules = [
    { level: 'Metadata', resources: [{ group: 'coordination.k8s.io', resources: ['leases'] }] },
    { level: 'None' },
  ]
  writeFileSync(policy, JSON.stringify({ apiVersion: 'audit.k8s.io/v1', kind: 'Policy', rules }))
  return [`--audit-policy-file=${policy}`, `--audit-log-path=${auditLog}`]
}

/** All combinations run concurrently. */
function patience() {
  if (quick) return { latenciesMs: [2_700], keepMs: 5_000, stallsMs: [7_000], phases: [0.1, 0.9] }
  return {
    latenciesMs: [0, 500, 1_000, 1_500, 2_000, 2_500, 2_700, 3_000],
    keepMs: 45_000,
    stallsMs: [1, 2, 3, 4, 5, 6, 7, 8, 9].map((seconds) => seconds * 1_000),
    phases: [0.1, 0.3, 0.5, 0.7, 0.9],
  }
}

/** @param {Timings} timings */
function show({ leaseDurationMs, renewDeadlineMs, retryPeriodMs }) {
  return `${[leaseDurationMs, renewDeadlineMs, retryPeriodMs].map((ms) => `${ms / 1000} s`).join(' / ')}`
}
