// npm run bench:service: the election service compared in one run with the bare technology underneath. Each server has
// its own process, and this process generates the load.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { load } from '../scripts/load.js'
import { Connection, drive, openMany } from './http-connection.js'
import { format, median, percentile } from './numbers.js'
import { readOptions, Report } from './report.js'
import { campaign, compare, fill, groupName, hourMs, put } from './service-load.js'
import { Servers } from './service-process.js'
import { SseWatchers } from './sse-watchers.js'

const options = readOptions('service')
const { quick } = options
const figures = await Report.open(options)
const { start } = /** @type {typeof import('../test/servers/server.ts')} */ (await load('test/servers/server.ts'))
const { etcd } = /** @type {typeof import('../test/servers/etcd.ts')} */ (await load('test/servers/etcd.ts'))

const roundMs = quick ? 300 : 4_000
const rounds = quick ? 1 : 5
const folder = mkdtempSync(join(tmpdir(), 'tenure-bench-'))
const servers = new Servers(folder)
try {
  await benchRenewals()
  await benchBatches()
  await benchCampaigns()
  await benchWatchers()
  await benchManyGroups()
} finally {
  await servers.stopAll()
  rmSync(folder, { recursive: true, force: true })
}
figures.finish()

async function benchRenewals() {
  const connections = 64
  const [service, bare] = await Promise.all([servers.start('elections', 'renewals'), servers.start('bare')])
  const ours = await openMany(service.url, connections)
  const theirs = await openMany(bare.url, connections)
  await Promise.all(ours.map((connection, index) => campaign(connection, `renew-${index}`)))
  const body = JSON.stringify({ node_id: 'node-1', term: 1, extend_by_ms: hourMs })
  const renew = (/** @type {Connection} */ connection, /** @type {number} */ index) =>
    connection.post(`/v1/groups/renew-${index}/renew`, body)
  const { ratio, perSecond } = await compare({ ours, theirs, sendOurs: renew, sendTheirs: renew }, { roundMs, rounds })
  figures.add({
    name: 'renewals of a bare fastify route to ours',
    value: ratio,
    unit: 'x',
    goal: 1.667,
    detail: `${perSecond} per second over ${connections} connections`,
  })
  for (const connection of [...ours, ...theirs]) connection.close()
  await Promise.all([service.stop(), bare.stop()])
}

async function benchBatches() {
  const leases = quick ? 1_000 : 10_000
  const service = await servers.start('elections', 'batches')
  await fill(service.url, leases)
  const renewals = Array.from({ length: leases }, (_, index) => ({
    group_id: groupName(index),
    term: 1,
    extend_by_ms: hourMs,
  }))
  const body = JSON.stringify({ node_id: 'node-1', renewals })
  const connections = await openMany(service.url, 2)
  const send = (/** @type {Connection} */ connection) => connection.post('/v1/renew', body)
  const [connection] = connections
  const { results } = JSON.parse((connection && (await send(connection))) ?? '{}')
  const renewed = results.filter((/** @type {{ ok: boolean }} */ { ok }) => ok).length
  if (renewed !== leases) throw new Error(`${renewed} of ${leases} leases were renewed`)
  await drive(connections, roundMs / 2, send)
  const perRound = []
  for (let round = 0; round < rounds; round++) {
    perRound.push((await drive(connections, roundMs, send)).perSecond * leases)
  }
  const perSecond = median(perRound)
  figures.add({
    name: 'one lease in a batch of renewals',
    value: 1e6 / perSecond,
    unit: 'us',
    goal: 5,
    detail: `${format(perSecond)} leases per second, ${leases} in a request`,
  })
  for (const each of connections) each.close()
  await service.stop()
}

async function benchCampaigns() {
  const clients = 64
  const service = await servers.start('elections', 'campaigns')
  const database = await start(etcd)
  try {
    const ours = await openMany(service.url, clients)
    const theirs = await openMany(database.url, clients)
    let next = 0
    const grant = (/** @type {Connection} */ connection) => campaign(connection, `new-${next++}`)
    const putOne = (/** @type {Connection} */ connection) => put(connection, `/elections/new-${next++}`)
    const { ratio, perSecond } = await compare(
      { ours, theirs, sendOurs: grant, sendTheirs: putOne },
      { roundMs, rounds },
    )
    figures.add({
      name: 'puts of one etcd to durable campaigns of ours',
      value: ratio,
      unit: 'x',
      goal: 0.333,
      detail: `${perSecond} per second, ${clients} clients, each a new term on disk`,
    })
    for (const connection of [...ours, ...theirs]) connection.close()
  } finally {
    await database.stop()
    await service.stop()
  }
}

async function benchWatchers() {
  const count = quick ? 200 : 5_000
  const service = await servers.start('elections', 'watchers')
  const watchers = await SseWatchers.open(`${service.url}/v1/groups/watched/watch`, count)
  const connection = await Connection.open(service.url)
  /** @type {number[]} */
  const toldMs = []
  // The server warms up in the first rounds.
  const warmUp = quick ? 1 : 5
  for (let round = 0; round < warmUp + (quick ? 2 : 20); round++) {
    const told = watchers.nextEvent()
    const sentMs = performance.now()
    const { leader } = JSON.parse(await campaign(connection, 'watched'))
    const tookMs = (await told).map((atMs) => atMs - sentMs)
    if (round >= warmUp) toldMs.push(...tookMs)
    const over = watchers.nextEvent()
    await connection.post('/v1/groups/watched/resign', JSON.stringify({ node_id: 'node-1', term: leader.term }))
    await over
  }
  figures.add({
    name: 'a change delivered to every watcher, p99',
    value: percentile(toldMs, 0.99),
    unit: 'ms',
    goal: 100,
    detail: `${count} watchers of one group, slowest ${format(Math.max(...toldMs.slice(-count)))} ms in the last round`,
  })
  watchers.close()
  connection.close()
  await service.stop()
}

async function benchManyGroups() {
  const few = 1_000
  const many = quick ? 20_000 : 1_000_000
  console.log(`making ${many} groups, each with a leader ...`)
  let service = await servers.start('elections', 'many')
  const emptyBytes = await service.heapUsed()
  await fill(service.url, many)
  await service.stop()
  const startedMs = performance.now()
  service = await servers.start('elections', 'many')
  const startUpMs = performance.now() - startedMs
  figures.add({
    name: 'start-up with many groups',
    value: startUpMs / 1e3,
    unit: 's',
    goal: 10,
    detail: `${many} groups, from the start of the process to its first answer`,
  })
  figures.add({
    name: 'heap of a group',
    value: ((await service.heapUsed()) - emptyBytes) / many,
    unit: 'bytes',
    goal: 600,
    detail: `with its lease, ${many} groups`,
  })
  const small = await servers.start('elections', 'few')
  await fill(small.url, few)
  const [crowded, roomy] = await Promise.all([openMany(service.url, 8), openMany(small.url, 8)])
  const body = JSON.stringify({ node_id: 'node-1', term: 1, extend_by_ms: hourMs })
  const renewOneOf = (/** @type {number} */ count) => (/** @type {Connection} */ connection) =>
    connection.post(`/v1/groups/${groupName(Math.floor(Math.random() * count))}/renew`, body)
  await drive(crowded, roundMs / 2, renewOneOf(many))
  await drive(roomy, roundMs / 2, renewOneOf(few))
  /** @type {number[]} */
  const ratios = []
  let last = { many: 0, few: 0 }
  for (let round = 0; round < rounds; round++) {
    last = {
      many: percentile((await drive(crowded, roundMs, renewOneOf(many))).latenciesMs, 0.99),
      few: percentile((await drive(roomy, roundMs, renewOneOf(few))).latenciesMs, 0.99),
    }
    ratios.push(last.many / last.few)
  }
  figures.add({
    name: 'p99 of a renewal among many groups',
    value: median(ratios),
    unit: 'x',
    goal: 2,
    detail: `of that among ${few}: ${format(last.many)} and ${format(last.few)} ms`,
  })
  for (const connection of [...crowded, ...roomy]) connection.close()
  await Promise.all([service.stop(), small.stop()])
}
