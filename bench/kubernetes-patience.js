// Measures how leaders survive an API server that is slow or stalls, with Tenure and client-go side by side.
import { setTimeout as sleep } from 'node:timers/promises'
import { load } from '../scripts/load.js'

const { SideBySide } = /** @type {typeof import('../test/kubernetes/side-by-side.ts')} */ (
  await load('test/kubernetes/side-by-side.ts')
)
const { electSlowly, stallElection } = /** @type {typeof import('../test/kubernetes/slow-elections.ts')} */ (
  await load('test/kubernetes/slow-elections.ts')
)

/**
 * @typedef {import('../test/servers/cluster.ts').ApiServer} ApiServer
 * @typedef {import('../test/kubernetes/side-by-side.ts').Kind} Kind
 * @typedef {import('../test/kubernetes/side-by-side.ts').ElectionTimings} ElectionTimings
 * @typedef {import('./report.js').Report} Report
 * @typedef {object} Load
 * @property {number[]} latenciesMs added to each round trip
 * @property {number} keepMs how long a leader with such calls must keep its lease
 * @property {number[]} stallsMs how long the API server stalls
 * @property {number[]} phases when a stall begins, as a fraction of the time between two renewals
 */

/** @type {Kind[]} */
const kinds = ['tenure', 'client-go']
/** @type {import('../test/kubernetes/slow-elections.ts').Slowness[]} */
const slownesses = ['api-server', 'network']
/** The names of these cases in the figures. */
const titles = { 'api-server': 'slow calls', network: 'slow network' }
/** A difference below this is noise, because two processes on one machine do not start at the same moment. */
const noiseMs = 200

/**
 * @param {ApiServer} cluster
 * @param {Report} figures
 * @param {ElectionTimings} timings
 * @param {Load} load
 */
export async function benchPatience(cluster, figures, timings, { latenciesMs, keepMs, stallsMs, phases }) {
  const sides = new SideBySide(cluster, timings)
  try {
    console.log(`${latenciesMs.length} latencies, leaders to be kept for ${keepMs / 1000} s ...`)
    const slow = await Promise.all(
      slownesses.flatMap((slowness) =>
        latenciesMs.flatMap((latencyMs) =>
          kinds.map((kind) => electSlowly(sides, kind, { slowness, latencyMs, keepMs })),
        ),
      ),
    )
    for (const slowness of slownesses) {
      const some = slow.filter((each) => each.slowness === slowness)
      reportSlow(figures, latenciesMs, keepMs, some, slowness)
    }
    console.log(`${stallsMs.length} stalls, each at ${phases.length} moments between two renewals ...`)
    const stalled = await Promise.all(
      stallsMs.flatMap((stallMs, index) =>
        phases.flatMap((phase) =>
          kinds.map(async (kind) => {
            // Starting this many processes at once would overload the machine.
            await sleep(index * 1_000)
            return stallElection(sides, kind, stallMs, phase)
          }),
        ),
      ),
    )
    reportStalled(figures, stallsMs, stalled)
    const overlaps = sides.overlaps('tenure')
    for (const overlap of overlaps) console.log(overlap)
    figures.add({
      name: 'moments of two leaders in all of these',
      value: overlaps.length,
      unit: '',
      goal: 1,
      detail: `in ${(slow.length + stalled.length) / 2} elections of Tenure with two candidates each`,
    })
  } finally {
    await sides.end()
  }
}

/**
 * @param {Report} figures
 * @param {number[]} latenciesMs
 * @param {number} keepMs
 * @param {import('../test/kubernetes/slow-elections.ts').SlowElection[]} elections
 * @param {keyof typeof titles} slowness
 */
function reportSlow(figures, latenciesMs, keepMs, elections, slowness) {
  const isKept = (/** @type {(typeof elections)[number] | undefined} */ election) => (election?.keptMs ?? 0) >= keepMs
  let onlyPeer = 0
  let ratio = 0
  const rows = latenciesMs.map((latencyMs) => {
    const [tenure, peer] = kinds.map((kind) =>
      elections.find((each) => each.kind === kind && each.latencyMs === latencyMs),
    )
    if (isKept(peer) && !isKept(tenure)) onlyPeer++
    const { electedAfterMs: ownMs = Infinity } = tenure ?? {}
    const { electedAfterMs: peerMs = Infinity } = peer ?? {}
    ratio = Math.max(ratio, Math.max(ownMs - noiseMs, 0) / peerMs)
    return {
      'added to each round trip, s': latencyMs / 1000,
      'Tenure: leader after, s': seconds(tenure?.electedAfterMs),
      'kept, s': seconds(tenure?.keptMs),
      'client-go: leader after, s': seconds(peer?.electedAfterMs),
      'kept by client-go, s': seconds(peer?.keptMs),
    }
  })
  figures.addTable(titles[slowness], rows)
  figures.add({
    name: `${titles[slowness]}: time to lead, worst`,
    value: ratio,
    unit: 'x',
    goal: 1.1,
    atMost: true,
    detail: `of client-go's, at any of ${rows.length} latencies; differences below ${noiseMs / 1000} s do not count`,
  })
  figures.add({
    name: `${titles[slowness]}: leaders that client-go alone has`,
    value: onlyPeer,
    unit: '',
    goal: 1,
    detail: `of ${rows.length}: elected, and kept for ${keepMs / 1000} s`,
  })
}

/**
 * @param {Report} figures
 * @param {number[]} stallsMs
 * @param {import('../test/kubernetes/slow-elections.ts').StalledElection[]} elections
 */
function reportStalled(figures, stallsMs, elections) {
  const rows = stallsMs.map((stallMs) => {
    const [tenure = [], peer = []] = kinds.map((kind) =>
      elections.filter((each) => each.kind === kind && each.stallMs === stallMs),
    )
    const kept = (/** @type {typeof elections} */ some) => some.filter((each) => each.kept).length
    return {
      'API server stalled for, s': stallMs / 1000,
      leaders: tenure.length,
      'kept by Tenure': kept(tenure),
      'kept by client-go': kept(peer),
    }
  })
  figures.addTable('stalls', rows)
  const missed = rows.map((row) => Math.max(0, row['kept by client-go'] - row['kept by Tenure']))
  figures.add({
    name: 'stalls: leaders that client-go alone keeps',
    value: missed.reduce((sum, count) => sum + count, 0),
    unit: '',
    goal: 1,
    detail: `of ${elections.length / kinds.length}`,
  })
}

/** @param {number | undefined} ms */
function seconds(ms) {
  return ms === undefined ? null : Number((ms / 1000).toFixed(1))
}
