// npm run bench:multicluster: one leader across clusters with etcd as the global lock, compared with the same etcd
// without clusters.
import { setTimeout as sleep } from 'node:timers/promises'
import { load } from '../scripts/load.js'
import { benchLoad } from './multicluster-load.js'
import { format, median, percentile } from './numbers.js'
import { readOptions, Report } from './report.js'
import { Fleet } from './store-fleet.js'
import { tenure } from './store-places.js'

const options = readOptions('multicluster')
const { quick } = options
const figures = await Report.open(options)
const { startClusters } = /** @type {typeof import('../test/multicluster/clusters.ts')} */ (
  await load('test/multicluster/clusters.ts')
)

/** Short, because each measured crash takes a whole lease. Whole seconds, because etcd counts in seconds. */
const leaseDurationMs = quick ? 2_000 : 5_000
const releases = quick ? 3 : 100
const deaths = quick ? 1 : 8
const controllerDeaths = quick ? 1 : 10
const idleLeases = quick ? 2 : 10
const url = 'multicluster://default'

figures.describe({ leaseMs: leaseDurationMs, releases, deaths, controllerDeaths })
const clusters = await startClusters({ names: ['east', 'west'], controllers: 2 })
const across = new Fleet(tenure, 'bench', leaseDurationMs)
const direct = new Fleet(tenure, 'direct', leaseDurationMs)
/** @type {Map<import('node:child_process').ChildProcess, import('../test/multicluster/clusters.ts').Member>} */
const homes = new Map()
try {
  for (const member of clusters.members) await addAcross(member)
  for (const member of clusters.members) await addDirect(member)
  await benchStandby()
  await benchReleases()
  await benchDeaths()
  await benchControllerDeaths()
} finally {
  await Promise.all([across.end(), direct.end()])
  await clusters.stop()
}
await benchLoad(
  startClusters,
  figures,
  quick
    ? { resources: 20, leaseDurationMs: 15_000, windowMs: 5_000 }
    : { resources: 1_000, leaseDurationMs: 15_000, windowMs: 60_000 },
)
figures.finish()

/** @param {import('../test/multicluster/clusters.ts').Member} member */
async function addAcross(member) {
  homes.set(await across.add(url, { KUBECONFIG: member.kubeConfig.candidate }), member)
}

/**
 * Connects to the same etcd over the same network path. @param {import('../test/multicluster/clusters.ts').Member}
 * member
 */
async function addDirect({ backbone }) {
  await direct.add(`etcd://127.0.0.1:${backbone.port}`)
}

/** Measures the cost of a cluster in which nobody leads and one candidate waits. */
async function benchStandby() {
  const idle = clusters.members.find((member) => member !== homes.get(across.leader))
  if (!idle) throw new Error('every cluster has a leader, so there is no idle cluster to measure')
  await sleep(leaseDurationMs)
  console.log(`an idle standby, for ${idleLeases} leases ...`)
  const before = await counted(idle)
  await sleep(idleLeases * leaseDurationMs)
  const after = await counted(idle)
  figures.add({
    name: 'a standby, global calls in a lease',
    value: (after.calls - before.calls) / idleLeases,
    unit: 'calls',
    goal: 2,
    atMost: true,
    detail: `and ${format((after.writes - before.writes) / idleLeases)} writes of a status; counted for ${idleLeases} leases`,
  })
}

/** @param {import('../test/multicluster/clusters.ts').Member} member */
async function counted({ controllers }) {
  const texts = await Promise.all(controllers.map((controller) => controller.metrics()))
  const sum = (/** @type {RegExp} */ pattern) =>
    texts.flatMap((text) => [...text.matchAll(pattern)]).reduce((total, [, value]) => total + Number(value), 0)
  return {
    calls: sum(/^tenure_controller_call_seconds_count\{.*\} (\d+)$/gm),
    writes: sum(/^tenure_controller_status_writes_total\{.*\} (\d+)$/gm),
  }
}

/** The two take turns, so that neither is measured while the other is working. */
async function benchReleases() {
  console.log(`${releases} releases ...`)
  /** @type {number[]} */
  const ours = []
  /** @type {number[]} */
  const theirs = []
  for (let round = 0; round < releases; round++) {
    ours.push(await across.release())
    theirs.push(await direct.release())
    // By now, the candidates that released are standing by again.
    await sleep(400)
  }
  const [p50, p99] = [median(ours), percentile(ours, 0.99)]
  figures.add({
    name: 'clean handover across clusters, p99',
    value: p99,
    unit: 'ms',
    goal: 500,
    detail: `p50 ${format(p50)} ms; straight on the global etcd p50 ${format(median(theirs))}, p99 ${format(percentile(theirs, 0.99))} ms: ${format(p50 / median(theirs))} times as long at p50; ${releases} rounds`,
  })
}

async function benchDeaths() {
  console.log(`${deaths} deaths of a leader ...`)
  /** @type {number[]} */
  const ours = []
  /** @type {number[]} */
  const theirs = []
  for (let round = 0; round < deaths; round++) {
    const home = homes.get(across.leader)
    const [own, other] = await Promise.all([across.killLeader(), direct.killLeader()])
    ours.push(own)
    theirs.push(other)
    if (!home) throw new Error('the leader does not belong to a cluster')
    await addAcross(home)
    await addDirect(home)
  }
  const over = Math.max(...ours) - leaseDurationMs
  figures.add({
    name: 'SIGKILL of the leader to the next one, slowest',
    value: over,
    unit: 'ms',
    goal: 1_000,
    atMost: true,
    detail: `longer than the lease of ${leaseDurationMs / 1000} s; median ${format(median(ours))} ms, straight on the global etcd ${format(median(theirs))} ms; ${deaths} rounds`,
  })
}

/** Kills the controller that answers first, once in each round, at a random phase of the renewals. */
async function benchControllerDeaths() {
  console.log(`${controllerDeaths} deaths of a controller ...`)
  const lostBefore = across.count('lost')
  for (let round = 0; round < controllerDeaths; round++) {
    const { controllers } = homes.get(across.leader) ?? { controllers: [] }
    const controller = await firstOf(controllers)
    await controller.kill()
    await sleep(leaseDurationMs)
    await controller.start()
  }
  figures.add({
    name: 'SIGKILL of a controller, leaders lost',
    value: across.count('lost') - lostBefore,
    unit: 'leaders',
    goal: 0,
    atMost: true,
    detail: `two controllers in a cluster, the one that answers first is killed; ${controllerDeaths} rounds, lease ${leaseDurationMs / 1000} s`,
  })
}

/** @param {readonly import('../test/multicluster/clusters.ts').Controller[]} controllers */
async function firstOf(controllers) {
  for (;;) {
    for (const controller of controllers) if (await controller.isFirst()) return controller
    await sleep(100)
  }
}
