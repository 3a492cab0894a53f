// npm run bench:cluster: replicas of the election service on one etcd, compared in one run with that etcd alone and
// with the service on a directory. Each server has its own process, and this process generates the load.
import { mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { load } from '../scripts/load.js'
import { Connection, drive, openMany } from './http-connection.js'
import { Replicas } from './replicas.js'
import { format, median, percentile } from './numbers.js'
import { readOptions, Report } from './report.js'
import { fillStorage } from './fill-storage.js'
import { campaign, compare, fill, groupName, hourMs, put } from './service-load.js'
import { Servers } from './service-process.js'
import { SseWatchers } from './sse-watchers.js'

const options = readOptions('cluster')
const { quick } = options
const figures = await Report.open(options)
const { start } = /** @type {typeof import('../test/servers/server.ts')} */ (await load('test/servers/server.ts'))
const { etcd } = /** @type {typeof import('../test/servers/etcd.ts')} */ (await load('test/servers/etcd.ts'))
const { freePort } = /** @type {typeof import('../test/servers/free-port.ts')} */ (
  await load('test/servers/free-port.ts')
)

const length = { roundMs: quick ? 300 : 4_000, rounds: quick ? 1 : 5 }
const clients = 64
/** The lease of the active replica. */
const leaseMs = 3_000
const deaths = quick ? 1 : 5
const groups = quick ? 500 : 10_000
const sizes = process.env['SIZES']?.split(',').map(Number) ?? (quick ? [10, 500] : [10, 10_000, 1_000_000])

figures.describe({ clients, leaseMs, deaths, groups })
const folder = mkdtempSync(join(tmpdir(), 'tenure-bench-'))
const servers = new Servers(folder)
// One etcd for all parts. Each part has its own prefix.
const database = await start(etcd)
const storeOf = (/** @type {string} */ part) => `etcd://${new URL(database.url).host}/${part}`
const replicasOn = (/** @type {string} */ part, count = 3) => Replicas.start(count, servers, storeOf(part), freePort)
/** The parts, in the order in which they run. The environment variable ONLY selects a single part. */
const parts = {
  renewals: benchRenewals,
  shares: benchShares,
  batches: benchBatches,
  grants: benchGrants,
  handovers: benchHandOvers,
  watchers: benchWatchers,
  sizes: benchSizes,
}
const only = process.env['ONLY']
try {
  for (const [name, run] of Object.entries(parts)) if (only === undefined || only === name) await run()
} finally {
  await servers.stopAll()
  await database.stop()
  rmSync(folder, { recursive: true, force: true })
}
if (only === undefined) figures.finish()

async function benchRenewals() {
  const replicas = await replicasOn('renewals', 2)
  const alone = await servers.start('elections', 'renewals')
  const { followers } = await replicas.roles()
  const ours = await openMany(followers[0]?.url ?? '', clients)
  const theirs = await openMany(alone.url, clients)
  for (const side of [ours, theirs]) {
    await Promise.all(side.map((connection, index) => campaign(connection, groupName(index))))
  }
  const body = JSON.stringify({ node_id: 'node-1', term: 1, extend_by_ms: hourMs })
  let sent = 0
  const renew = (/** @type {Connection} */ connection, /** @type {number} */ index) =>
    connection.post(`/v1/groups/${groupName(index)}/renew`, body)
  const renewOurs = (/** @type {Connection} */ connection, /** @type {number} */ index) => {
    sent += 1
    return renew(connection, index)
  }
  const revision = await revisionOf()
  const { ratio, perSecond } = await compare({ ours, theirs, sendOurs: renewOurs, sendTheirs: renew }, length)
  figures.add({
    name: 'renewals of a service on a directory to those through a follower',
    value: ratio,
    unit: 'x',
    goal: 3.33,
    atMost: true,
    detail: `${perSecond} per second over ${clients} connections`,
  })
  const written = await writtenSince('renewals/group:', revision)
  figures.add({
    name: 'writes of etcd for a renewal',
    value: written / sent,
    unit: 'writes',
    goal: 0,
    atMost: true,
    detail: `${written} keys of groups were written while ${sent} renewals were confirmed`,
  })
  for (const connection of [...ours, ...theirs]) connection.close()
  await alone.stop()
  await replicas.stop()
}

/** Followers take work off the active replica, even on the same machine, because they use the other cores. */
async function benchShares() {
  const alone = await servers.start('elections', 'shares')
  const replicas = await replicasOn('shares')
  const { active, followers } = await replicas.roles()
  const sides = [
    { name: 'a service on a directory', owner: alone, entries: [alone] },
    { name: 'the active replica', owner: active, entries: [active] },
    { name: 'one follower', owner: active, entries: followers.slice(0, 1) },
    { name: 'two followers', owner: active, entries: followers },
  ]
  const body = JSON.stringify({ node_id: 'node-1', term: 1, extend_by_ms: hourMs })
  const renew = (/** @type {Connection} */ connection, /** @type {number} */ index) =>
    connection.post(`/v1/groups/${groupName(index)}/renew`, body)
  const rows = []
  for (const owner of [alone, active]) await fill(owner.url, clients)
  for (const { name, owner, entries } of sides) {
    const perEntry = await Promise.all(entries.map(({ url }) => openMany(url, clients / entries.length)))
    const connections = perEntry.flat()
    await drive(connections, length.roundMs, renew)
    const before = await owner.usage()
    const { perSecond, latenciesMs } = await drive(connections, length.roundMs, renew)
    const usedUs = (await owner.usage()).cpuUs - before.cpuUs
    rows.push({
      'renewals sent to': name,
      'per second': Math.round(perSecond),
      'us of the process with the groups for each': Math.round(usedUs / latenciesMs.length),
    })
    for (const connection of connections) connection.close()
  }
  figures.addTable('shares', rows)
  await alone.stop()
  await replicas.stop()
}

async function benchBatches() {
  const leases = quick ? 500 : 10_000
  const replicas = await replicasOn('batches', 2)
  const { followers } = await replicas.roles()
  const url = followers[0]?.url ?? ''
  await fill(url, leases)
  const renewals = Array.from({ length: leases }, (_, index) => ({
    group_id: groupName(index),
    term: 1,
    extend_by_ms: hourMs,
  }))
  const body = JSON.stringify({ node_id: 'node-1', renewals })
  const ours = await openMany(url, 2)
  const theirs = await openMany(database.url, clients)
  let next = 0
  const { ratio, perSecond } = await compare(
    {
      ours,
      theirs,
      sendOurs: (connection) => connection.post('/v1/renew', body),
      sendTheirs: (connection) => put(connection, `/batches/${next++}`),
    },
    length,
  )
  figures.add({
    name: 'puts of etcd to renewals in batches through a follower',
    value: ratio / leases,
    unit: 'x',
    goal: 0.05,
    atMost: true,
    detail: `${perSecond} per second, ${leases} renewals in each of the latter`,
  })
  for (const connection of [...ours, ...theirs]) connection.close()
  await replicas.stop()
}

async function benchGrants() {
  const replicas = await replicasOn('grants')
  const { active, followers } = await replicas.roles()
  // All replicas get a share of the requests, as behind a load balancer.
  const shares = await Promise.all(
    [active, ...followers].map(({ url }, at) => openMany(url, Math.ceil((clients - at) / 3))),
  )
  const ours = shares.flat()
  const theirs = await openMany(database.url, clients)
  let next = 0
  const { ratio, perSecond } = await compare(
    {
      ours,
      theirs,
      sendOurs: (connection) => campaign(connection, `new-${next++}`),
      sendTheirs: (connection) => put(connection, `/grants/${next++}`),
    },
    length,
  )
  figures.add({
    name: 'puts of etcd to durable grants',
    value: ratio,
    unit: 'x',
    goal: 1,
    atMost: true,
    detail: `${perSecond} per second, ${clients} clients, grants over three replicas`,
  })
  for (const connection of [...ours, ...theirs]) connection.close()
  await replicas.stop()
}

async function benchHandOvers() {
  const replicas = await replicasOn('deaths')
  const { followers } = await replicas.roles()
  await fill(followers[0]?.url ?? '', groups)
  const measure = async (/** @type {NodeJS.Signals} */ signal) => {
    const tookMs = []
    for (let round = 0; round < deaths; round++) {
      tookMs.push(await replicas.handOverMs(signal))
      await replicas.add()
      await replicas.whole(3)
    }
    return tookMs
  }
  const killedMs = await measure('SIGKILL')
  figures.add({
    name: 'SIGKILL of the active replica to the next grant, slowest',
    value: Math.max(...killedMs),
    unit: 'ms',
    goal: leaseMs + 1_000,
    atMost: true,
    detail: `${groups} groups; median ${format(median(killedMs))} ms, ${deaths} rounds; its lease is ${leaseMs} ms`,
  })
  const stoppedMs = await measure('SIGTERM')
  figures.add({
    name: 'clean stop of the active replica to the next grant, slowest',
    value: Math.max(...stoppedMs),
    unit: 'ms',
    goal: 500,
    detail: `${groups} groups; median ${format(median(stoppedMs))} ms, ${deaths} rounds`,
  })
  await replicas.stop()
}

async function benchWatchers() {
  const count = quick ? 150 : 5_000
  const replicas = await replicasOn('watchers')
  const { active, followers } = await replicas.roles()
  const path = '/v1/groups/watched/watch'
  const crowds = await Promise.all(
    [active, ...followers].map(({ url }, at) => SseWatchers.open(url + path, Math.ceil((count - at) / 3))),
  )
  const nextEvent = async () => (await Promise.all(crowds.map((crowd) => crowd.nextEvent()))).flat()
  const connection = await Connection.open(active.url)
  /** @type {number[]} */
  const heardMs = []
  // The servers warm up in the first rounds.
  const warmUp = quick ? 1 : 5
  for (let round = 0; round < warmUp + (quick ? 2 : 20); round++) {
    const heard = nextEvent()
    const sentMs = performance.now()
    const { leader } = JSON.parse(await campaign(connection, 'watched'))
    const tookMs = (await heard).map((atMs) => atMs - sentMs)
    if (round >= warmUp) heardMs.push(...tookMs)
    const over = nextEvent()
    await connection.post('/v1/groups/watched/resign', JSON.stringify({ node_id: 'node-1', term: leader.term }))
    await over
  }
  figures.add({
    name: 'a change at every watcher of three replicas, p99',
    value: percentile(heardMs, 0.99),
    unit: 'ms',
    goal: 150,
    detail: `${count} watchers of one group, median ${format(median(heardMs))} ms`,
  })
  for (const crowd of crowds) crowd.close()
  connection.close()
  await replicas.stop()
}

/** The figures that an operator needs for planning. */
async function benchSizes() {
  const rows = []
  for (const size of sizes) {
    console.log(`making ${size} groups, each with a leader ...`)
    const part = `size-${size}`
    const before = await bytesInUse()
    await fillStorage(storeOf(part), size)
    const stored = (await bytesInUse()) - before
    const startMs = performance.now()
    const replicas = await replicasOn(part)
    await replicas.ready()
    const readyMs = performance.now() - startMs
    const { active } = await replicas.roles()
    const heap = (await active.heapUsed()) - (await emptyHeap())
    const failoverMs = await replicas.handOverMs('SIGKILL')
    console.log(`ready after ${format(readyMs)} ms, SIGKILL to the next grant ${format(failoverMs)} ms`)
    await replicas.add()
    await replicas.ready()
    const refusedMs = await replicas.rollingRestartMs()
    // A small number of groups takes less memory than the normal difference between processes.
    const each = (/** @type {number} */ bytes) => (size < 1_000 ? null : Math.round(bytes / size))
    rows.push({
      groups: size,
      'failover ms': Math.round(failoverMs),
      'longest wait in a rolling restart, ms': Math.round(refusedMs),
      'start of three replicas, ms': Math.round(readyMs),
      'heap bytes of a group': each(heap),
      'bytes of a group in etcd': each(stored),
      load: Number((loadavg()[0] ?? 0).toFixed(1)),
    })
    await replicas.stop()
  }
  figures.addTable('sizes', rows)
  figures.add({
    name: 'SIGKILL to the next grant at any size, slowest',
    value: Math.max(...rows.map((row) => row['failover ms'])),
    unit: 'ms',
    goal: leaseMs + 1_000,
    atMost: true,
    detail: `${sizes.join(', ')} groups; the lease of the active replica is ${leaseMs} ms`,
  })
  figures.add({
    name: 'longest wait for a grant in a rolling restart',
    value: Math.max(...rows.map((row) => row['longest wait in a rolling restart, ms'])),
    unit: 'ms',
    goal: 1_000,
    atMost: true,
    detail: `${sizes.join(', ')} groups; three replicas, one after another`,
  })
}

/** Returns the heap of a replica without groups. */
async function emptyHeap() {
  const replicas = await replicasOn('empty', 1)
  const heap = await (await replicas.roles()).active.heapUsed()
  await replicas.stop()
  return heap
}

/** @param {string} path @param {object} body @returns {Promise<Record<string, unknown>>} */
async function ask(path, body) {
  const answer = await fetch(database.url + path, { method: 'POST', body: JSON.stringify(body) })
  return /** @type {Record<string, unknown>} */ (await answer.json())
}

/** Returns the revision of the newest write. */
async function revisionOf() {
  const { header } = await ask('/v3/kv/range', { key: Buffer.from('none').toString('base64') })
  return Number(/** @type {{ revision: string }} */ (header).revision)
}

/**
 * Returns how many keys under a prefix were written after a revision. @param {string} prefix @param {number} revision
 */
async function writtenSince(prefix, revision) {
  const [key, range_end] = [prefix, `${prefix.slice(0, -1)};`].map((text) => Buffer.from(text).toString('base64'))
  // The `count` of the answer ignores the revision filter.
  const { kvs = [] } = await ask('/v3/kv/range', {
    key,
    range_end,
    min_mod_revision: String(revision + 1),
    keys_only: true,
  })
  return /** @type {object[]} */ (kvs).length
}

/** Returns the size in use, without the space that a compaction would free. */
async function bytesInUse() {
  const { dbSizeInUse = '0' } = await ask('/v3/maintenance/status', {})
  return Number(dbSizeInUse)
}
