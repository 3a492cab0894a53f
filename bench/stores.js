// npm run bench:stores: Tenure on etcd, Consul, PostgreSQL, MariaDB, Redis, and NATS, compared with common alternatives on the same servers.
import { setTimeout as sleep } from 'node:timers/promises'
import { load } from '../scripts/load.js'
import { format, median, percentile } from './numbers.js'
import { readOptions, Report } from './report.js'
import { endChild, Fleet } from './store-fleet.js'
import { places } from './store-places.js'
import { benchGuard } from './guard-cost.js'
import { guardedName, handoverTable } from './handover-picture.js'
import { measureRenewals } from './store-renewals.js'

/** A single server, by the scheme of its URL, from the environment variable ONLY. Default: all. */
const only = process.env['ONLY']
const options = readOptions('stores', [...process.argv.slice(2), ...(only === undefined ? [] : ['--dry-run'])])
const { quick } = options
const figures = await Report.open(options)
const { start } = /** @type {typeof import('../test/servers/server.ts')} */ (await load('test/servers/server.ts'))
const { startProxy } = /** @type {typeof import('../test/servers/proxy.ts')} */ (await load('test/servers/proxy.ts'))

/** Short, because each measured crash takes a whole lease. Whole seconds, because etcd counts in seconds. */
const leaseDurationMs = quick ? 4_000 : 5_000
/** The longest time between two requests of a standby that is not notified: 1.5 retry intervals of 2/15 of the lease. */
const pollMs = leaseDurationMs / 5
/**
 * The goals for a takeover, in percent of the lease. A standby that is not notified sees the last renewal up to 20 % late
 * (one poll), and waits up to 13.3 % after the expiry (one retry interval).
 */
const takeOverPercent = { notified: 1, polling: 34.3 }
const idleLeases = quick ? 2 : 10
/** A loss that is not reported by then counts as not reported. */
const hungForMs = (quick ? 2 : 8) * leaseDurationMs
const releases = quick ? 3 : 100
const deaths = quick ? 1 : 20
/** More rounds for contenders whose crash is noticed, because these rounds are short. */
const noticedDeaths = quick ? 2 : 100

/**
 * One contender on one server.
 *
 * @typedef {object} Lane
 * @property {import('./store-places.js').Place} place
 * @property {import('./store-places.js').Contender} contender
 * @property {import('../test/servers/server.ts').RunningServer} server
 * @property {Fleet} fleet
 */

figures.describe({ leaseMs: leaseDurationMs, hungForMs, releases, deaths, noticedDeaths })
const servers = await Promise.all(
  places.filter(({ url }) => only === undefined || url(1).startsWith(`${only}:`)).map(startServer),
)
/** @type {Lane[]} */
const lanes = servers.flatMap(({ place, server }) =>
  place.contenders.map((contender) => {
    return { place, contender, server, fleet: new Fleet(contender, `bench-${contender.program}`, leaseDurationMs) }
  }),
)
try {
  await benchRenewals()
  await benchGuard(figures, servers, quick)
  for (const lane of lanes) await startFleet(lane)
  console.log('an idle standby, and a server that hangs ...')
  const [idle, hung] = await Promise.all([inAll(countIdleRequests), inAll(measureHang)])
  console.log(`${releases} releases ...`)
  const handOvers = await measureReleases()
  console.log(`${deaths} crashes of a leader, ${noticedDeaths} where they are noticed ...`)
  const failOvers = await measureDeaths()
  report(lanes.map((lane, index) => rowOf(lane, idle[index], hung[index], handOvers[index], failOvers[index])))
} finally {
  await Promise.all(lanes.map(({ fleet }) => fleet.end()))
  await Promise.all(servers.map(({ server }) => server.stop()))
}
figures.finish()

/** @param {import('./store-places.js').Place} place */
async function startServer(place) {
  const kinds = /** @type {Record<string, import('../test/servers/server.ts').ServerKind>} */ (
    await load(`test/servers/${place.server}.ts`)
  )
  const kind = kinds[place.server]
  if (!kind) throw new Error(`test/servers/${place.server}.ts does not say how to start ${place.name}`)
  const server = await start(kind)
  await place.prepare?.(place.url(server.port))
  return { place, server }
}

async function benchRenewals() {
  console.log('renewals ...')
  for (const { place, server } of servers) {
    const { renewalMs, swapMs, writeMs } = await measureRenewals(place, place.url(server.port), quick ? 3 : 150)
    figures.add({
      name: `${place.name}: renewal`,
      value: renewalMs / swapMs,
      unit: 'x',
      goal: 1.3,
      atMost: true,
      detail: `of a compare-and-swap by hand: ${format(renewalMs)} and ${format(swapMs)} ms; a blind write ${format(writeMs)} ms`,
    })
  }
}

/** @param {Lane} lane */
async function startFleet({ fleet, place, server }) {
  const url = place.url(server.port)
  await fleet.add(url)
  await fleet.first({ event: 'started' })
  await fleet.add(url)
  await fleet.add(url)
}

/**
 * Returns how many requests an idle standby sends per lease duration.
 *
 * @param {Lane} lane
 */
async function countIdleRequests({ fleet, place, server }) {
  const proxy = await startProxy(server.port)
  const standby = await fleet.add(place.url(proxy.port))
  // Requests at startup do not count as requests of an idle standby.
  await sleep(leaseDurationMs)
  const before = proxy.sent
  await sleep(idleLeases * leaseDurationMs)
  const sent = proxy.sent - before
  await endChild(standby)
  proxy.stop()
  return sent / idleLeases
}

/**
 * The server stops answering as soon as the holder has its lease. Returns how long after the end of the lease the
 * holder learns that it lost it (negative if before), or undefined if it was not reported in time.
 *
 * @param {Lane} lane
 */
async function measureHang({ contender, place, server }) {
  const proxy = await startProxy(server.port)
  const fleet = new Fleet(contender, `hung-${contender.program}`, leaseDurationMs)
  try {
    const [, fresh] = await Promise.all([fleet.add(place.url(proxy.port)), fleet.first({ event: contender.fresh })])
    proxy.set('hold')
    const lost = await fleet.first({ event: 'lost', withinMs: hungForMs }).catch(() => undefined)
    return lost && lost.monotonicMs - fresh.monotonicMs - leaseDurationMs
  } finally {
    await fleet.end()
    proxy.stop()
  }
}

/** The contenders take turns. None is measured while another one hands over its lease. */
async function measureReleases() {
  const tookMs = lanes.map(() => /** @type {number[]} */ ([]))
  for (let round = 0; round < releases; round++) {
    for (const [index, { fleet }] of lanes.entries()) tookMs[index]?.push(await fleet.release())
    // By now, the candidates that released are standing by again.
    await sleep(400)
  }
  return tookMs
}

/** All rounds run in step, so that no process starts while the standby of another contender is about to take over. */
async function measureDeaths() {
  const tookMs = lanes.map(() => /** @type {number[]} */ ([]))
  for (let round = 0; round < noticedDeaths; round++) {
    const taking = lanes.filter(({ contender }) => round < deaths || contender.noticesCrashes)
    await Promise.all(taking.map(async (lane) => tookMs[lanes.indexOf(lane)]?.push(await lane.fleet.killLeader())))
    for (const { fleet, place, server } of taking) await fleet.add(place.url(server.port))
  }
  return tookMs
}

/**
 * @template Result
 * @param {(lane: Lane) => Promise<Result>} measure
 */
function inAll(measure) {
  return Promise.all(lanes.map(measure))
}

/**
 * @param {Lane} lane
 * @param {number} idle
 * @param {number | undefined} lossMs
 * @param {number[]} handOvers
 * @param {number[]} failOvers
 * @returns {import('./stores-page.js').Row}
 */
function rowOf({ place, contender }, idle = NaN, lossMs, handOvers = [], failOvers = []) {
  const rounded = (/** @type {number} */ ms) => Math.round(ms * 10) / 10
  return {
    server: place.name,
    contender: contender.name,
    failOverMs: rounded(median(failOvers)),
    failOverP99Ms: rounded(percentile(failOvers, 0.99)),
    slowestFailOverMs: rounded(Math.max(...failOvers)),
    deaths: failOvers.length,
    handOverMs: rounded(median(handOvers)),
    handOverP99Ms: rounded(percentile(handOvers, 0.99)),
    lossAfterLeaseMs: lossMs === undefined ? null : Math.round(lossMs),
    idleRequestsPerLease: rounded(idle),
  }
}

/** @param {import('./stores-page.js').Row[]} rows */
function report(rows) {
  const placeOf = (/** @type {string} */ server) => places.find(({ name }) => name === server)
  for (const row of rows.filter(({ contender }) => contender === 'Tenure')) {
    const polls = placeOf(row.server)?.polls ?? false
    figures.add({
      name: `${row.server}: release to the next leader, p99`,
      value: row.handOverP99Ms,
      unit: 'ms',
      goal: polls ? pollMs + 50 : 50,
      detail: `median ${format(row.handOverMs)} ms, ${releases} rounds`,
    })
    figures.add({
      name: `${row.server}: SIGKILL to the next leader, slowest`,
      value: (row.slowestFailOverMs / leaseDurationMs - 1) * 100,
      unit: '%',
      goal: polls ? takeOverPercent.polling : takeOverPercent.notified,
      atMost: true,
      detail: `longer than the lease of ${leaseDurationMs / 1_000} s; median ${format(row.failOverMs)} ms, ${deaths} rounds`,
    })
    figures.add({
      name: `${row.server}: requests from an idle standby`,
      value: row.idleRequestsPerLease,
      unit: 'a lease',
      goal: placeOf(row.server)?.requestsPerLease ?? 1,
      atMost: true,
      detail: `counted for ${idleLeases} leases`,
    })
    figures.add({
      name: `${row.server}: loss reported on a hung server`,
      value: row.lossAfterLeaseMs ?? hungForMs,
      unit: 'ms',
      goal: 0,
      detail: 'after the end of the lease; negative is before it',
    })
  }
  for (const row of rows.filter(({ contender }) => contender === guardedName)) {
    figures.add({
      name: `${row.server}: crash to the next leader with releaseOnCrash, p99`,
      value: row.failOverP99Ms ?? NaN,
      unit: 'ms',
      goal: placeOf(row.server)?.polls ? pollMs + 100 : 100,
      detail: `median ${format(row.failOverMs)} ms, slowest ${format(row.slowestFailOverMs)} ms, ${row.deaths} rounds`,
    })
  }
  figures.addTable(
    handoverTable,
    rows.map((row) => ({ ...row })),
  )
}
