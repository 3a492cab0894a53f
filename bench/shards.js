// npm run bench:shards: what many shards cost, and how long a shard is without an owner, on etcd, PostgreSQL, and Redis.
import { execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { hrtime } from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import pg from 'pg'
import { Elector } from 'tenure'
import { openStore } from 'tenure/stores'
import { load } from '../scripts/load.js'
import { format, median, percentile } from './numbers.js'
import { readOptions, Report } from './report.js'
import { places } from './store-places.js'

const options = readOptions('shards')
const { quick } = options
const figures = await Report.open(options)
const { start } = /** @type {typeof import('../test/servers/server.ts')} */ (await load('test/servers/server.ts'))

/** Short, because a crash takes a whole lease. Whole seconds, because etcd counts in seconds. */
const leaseDurationMs = 3_000
const size = quick ? 3 : 8
const shardCount = quick ? 12 : 256
const leaves = quick ? 1 : 2
const countedLeases = quick ? 1 : 3
const countedKeys = quick ? 20 : 10_000
/** One election for each of these keys, in addition to the shards. */
const elections = quick ? 4 : 100
const patienceMs = 60_000

/**
 * @typedef {{ event: 'gained' | 'revoked' | 'lost' | 'leaves' | 'held' | 'coordinates', shard?: number, count?: number, atMs: number }} Told
 * @typedef {{ child: import('node:child_process').ChildProcess, owned: Set<number>, isGone: boolean }} Member
 */

/** The processes of one group. */
class Group {
  /** @type {Set<Member>} */
  members = new Set()
  /** The time at which each shard lost its owner. @type {Map<number, number>} */
  #freeSinceMs = new Map()
  /** How long each shard that was granted again had no owner. @type {number[]} */
  freeMs = []
  /** @type {Set<() => void>} */
  #waiting = new Set()
  #url
  #name
  #shards
  #guarded
  #lives = 0
  /** The newest coordinator. @type {Member | undefined} */
  #coordinator

  /** @param {string} url @param {string} name @param {number} shards @param {boolean} [guarded] */
  constructor(url, name, shards, guarded = false) {
    this.#url = url
    this.#name = name
    this.#shards = shards
    this.#guarded = guarded
  }

  add() {
    const identity = `member-${++this.#lives}`
    const args = [this.#url, this.#name, identity, this.#shards, leaseDurationMs, countedKeys, this.#guarded]
    const child = fork(join(import.meta.dirname, 'shard-process.js'), args.map(String))
    /** @type {Member} */
    const member = { child, owned: new Set(), isGone: false }
    this.members.add(member)
    child.on('message', (/** @type {Told} */ told) => this.#take(member, told))
    child.once('exit', () => this.members.delete(member))
  }

  /** Resolves when every shard is owned and loads differ by at most one. */
  async settled() {
    await this.#until(() => {
      const loads = [...this.members].map(({ owned }) => owned.size)
      return this.#isOwned() && Math.max(...loads) - Math.min(...loads) <= 1
    }, 'fair loads')
  }

  /** A member leaves. Returns how long each of its shards was without an owner. */
  async leave() {
    const member = this.#follower()
    this.freeMs = []
    const exited = once(member.child, 'exit')
    member.child.send('leave')
    await exited
    await this.settled()
    return this.freeMs
  }

  /**
   * Kills a member. Returns how long it took until all of its shards were owned again.
   *
   * @param {'follower' | 'coordinator'} which
   */
  async kill(which) {
    const member = which === 'coordinator' && this.#coordinator ? this.#coordinator : this.#follower()
    const shards = [...member.owned]
    const killedAtMs = machineMs()
    member.isGone = true
    for (const shard of shards) this.#freeSinceMs.set(shard, killedAtMs)
    this.freeMs = []
    const exited = once(member.child, 'exit')
    member.child.kill('SIGKILL')
    await exited
    await this.#until(() => shards.every((shard) => !this.#freeSinceMs.has(shard)), 'new owners')
    return Math.max(...this.freeMs)
  }

  /** Every process holds all keys that it owns. */
  async holdKeys() {
    const counts = await Promise.all(
      [...this.members].map(async ({ child }) => {
        child.send('hold')
        for (;;) {
          const [told] = /** @type {[Told]} */ (await once(child, 'message'))
          if (told.event === 'held') return told.count ?? 0
        }
      }),
    )
    return counts.reduce((sum, count) => sum + count, 0)
  }

  async end() {
    await Promise.all(
      [...this.members].map(async ({ child }) => {
        if (child.exitCode !== null || child.signalCode !== null) return
        const exited = once(child, 'exit')
        child.kill('SIGKILL')
        await exited
      }),
    )
  }

  #isOwned() {
    return [...this.members].reduce((sum, { owned }) => sum + owned.size, 0) === this.#shards
  }

  /** A member with the most shards that does not coordinate. @returns {Member} */
  #follower() {
    const followers = [...this.members].filter((member) => member !== this.#coordinator)
    const [member] = followers.toSorted((one, other) => other.owned.size - one.owned.size)
    if (!member) throw new Error('there is no member')
    return member
  }

  /** @param {Member} member @param {Told} told */
  #take(member, { event, shard, atMs }) {
    if (event === 'coordinates') this.#coordinator = member
    if (member.isGone || shard === undefined) return
    if (event === 'gained') {
      member.owned.add(shard)
      const since = this.#freeSinceMs.get(shard)
      if (since !== undefined) this.freeMs.push(atMs - since)
      this.#freeSinceMs.delete(shard)
    } else if (member.owned.delete(shard)) {
      this.#freeSinceMs.set(shard, atMs)
    }
    for (const wake of this.#waiting) wake()
  }

  /** @param {() => boolean} isTrue @param {string} what */
  #until(isTrue, what) {
    return new Promise((/** @type {(value?: undefined) => void} */ resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${this.#name}: no ${what} within ${patienceMs} ms`)), patienceMs)
      const look = () => {
        if (!isTrue()) return
        clearTimeout(timer)
        this.#waiting.delete(look)
        resolve()
      }
      this.#waiting.add(look)
      look()
    })
  }
}

figures.describe({ leaseMs: leaseDurationMs, processes: size, shards: shardCount, keys: countedKeys })
measureCalls()
/** The servers whose writes {@link writesOf} can count. */
const counted = new Set(['etcd', 'postgres', 'redis'])
for (const place of places.filter(({ server }) => counted.has(server)).toReversed()) await measurePlace(place)
figures.finish()

function measureCalls() {
  const [rounds, calls, keys] = quick ? [3, 10_000, 100] : [15, 200_000, 10_000]
  const args = ['--expose-gc', join(import.meta.dirname, 'shards-cost.js'), rounds, calls, keys].map(String)
  const { results, bytesPerShard, bytesPerKey } = JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' }))
  const ns = (/** @type {'ownsNs' | 'isLeaderNs'} */ name) =>
    median(results.map((/** @type {Record<string, number>} */ result) => result[name]))
  figures.add({
    name: 'owns(key)',
    value: ns('ownsNs') / ns('isLeaderNs'),
    unit: 'x',
    goal: 3,
    atMost: true,
    detail: `of isLeader(): ${format(ns('ownsNs'))} and ${format(ns('isLeaderNs'))} ns`,
  })
  figures.add({ name: 'memory per shard', value: bytesPerShard / 1_000, unit: 'KB', goal: 8, detail: 'with its work' })
  figures.add({ name: 'memory per held key', value: bytesPerKey / 1_000, unit: 'KB', goal: 4, detail: `${keys} holds` })
}

/** @param {import('./store-places.js').Place} place */
async function measurePlace(place) {
  console.log(`${place.name} ...`)
  const kinds = /** @type {Record<string, import('../test/servers/server.ts').ServerKind>} */ (
    await load(`test/servers/${place.server}.ts`)
  )
  const kind = kinds[place.server]
  if (!kind) throw new Error(`test/servers/${place.server}.ts does not say how to start ${place.name}`)
  const server = await start(kind)
  try {
    const url = place.url(server.port)
    await measureLosses(place, url)
    await measureWrites(place, url)
  } finally {
    await server.stop()
  }
}

/** @param {import('./store-places.js').Place} place @param {string} url */
async function measureLosses(place, url) {
  const group = new Group(url, 'bench-losses', shardCount)
  const guarded = new Group(url, 'bench-guarded', shardCount, true)
  try {
    for (let count = 0; count < size; count += 1) group.add()
    await group.settled()
    const freeMs = []
    for (let round = 0; round < leaves; round += 1) {
      freeMs.push(...(await group.leave()))
      group.add()
      await group.settled()
    }
    figures.add({
      name: `${place.name}: clean leave, p99`,
      value: percentile(freeMs, 0.99),
      unit: 'ms',
      goal: 500,
      detail: `a shard without an owner; median ${format(median(freeMs))} ms, ${freeMs.length} shards, lease ${leaseDurationMs / 1e3} s`,
    })
    figures.add({
      name: `${place.name}: SIGKILL to new owners`,
      value: await group.kill('follower'),
      unit: 'ms',
      goal: leaseDurationMs + 2_000,
      detail: 'of all its shards; one lease and 2 s',
    })
    figures.add({
      name: `${place.name}: SIGKILL of the coordinator`,
      value: await group.kill('coordinator'),
      unit: 'ms',
      goal: leaseDurationMs + 2_000,
      detail: 'to new owners of all its shards; one lease and 2 s',
    })
    await group.end()
    for (let count = 0; count < size; count += 1) guarded.add()
    await guarded.settled()
    figures.add({
      name: `${place.name}: SIGKILL with releaseOnCrash`,
      value: await guarded.kill('follower'),
      unit: 'ms',
      goal: 3_000,
      detail: 'to new owners of all shards',
    })
  } finally {
    await group.end()
    await guarded.end()
  }
}

/** @param {import('./store-places.js').Place} place @param {string} url */
async function measureWrites(place, url) {
  const rates = []
  for (const [shards, keys] of [
    [8, 0],
    [shardCount, 0],
    [2 * shardCount, 0],
    [shardCount, countedKeys],
  ]) {
    const group = new Group(url, `bench-writes-${shards}-${keys}`, shards ?? 0)
    try {
      for (let count = 0; count < 4; count += 1) group.add()
      await group.settled()
      const held = keys ? await group.holdKeys() : 0
      if (held !== keys) throw new Error(`${held} keys are held instead of ${keys}`)
      // By then all reports about the last change have been written.
      await sleep(leaseDurationMs)
      rates.push({ shards, keys, writes: await countWrites(place, url) })
    } finally {
      await group.end()
    }
    // Leases of killed processes expire without a write.
  }
  const counts = rates.map(({ writes }) => writes)
  figures.add({
    name: `${place.name}: writes per lease, largest difference`,
    value: (Math.max(...counts) / Math.min(...counts) - 1) * 100,
    unit: '%',
    goal: 5,
    atMost: true,
    detail: `4 processes: ${rates.map(({ shards, keys, writes }) => `${format(writes)} with ${shards} shards and ${keys} keys`).join(', ')}; one election per key: ${format(await countElectionWrites(place, url))} for ${elections} keys`,
  })
}

/** Returns the writes per lease of one election per key. @param {import('./store-places.js').Place} place @param {string} url */
async function countElectionWrites(place, url) {
  const store = await openStore(url)
  const electors = Array.from(
    { length: elections },
    (_, key) => new Elector({ store, election: `bench-key-${key}`, leaseDurationMs, log: false }),
  )
  for (const elector of electors) elector.start()
  await Promise.all(electors.map((elector) => elector.waitForLeadership()))
  const writes = await countWrites(place, url)
  await Promise.all(electors.map((elector) => elector.stop()))
  await store.close?.()
  return writes
}

/** Returns the writes per lease, as the server counts them. @param {import('./store-places.js').Place} place @param {string} url */
async function countWrites(place, url) {
  const before = await writesOf(place, url)
  const startedMs = performance.now()
  await sleep(countedLeases * leaseDurationMs)
  const after = await writesOf(place, url)
  return ((after - before) / (performance.now() - startedMs)) * leaseDurationMs
}

/** @param {import('./store-places.js').Place} place @param {string} url @returns {Promise<number>} */
async function writesOf({ server }, url) {
  if (server === 'etcd') {
    const body = JSON.stringify({ key: Buffer.from('none').toString('base64') })
    const answer = await fetch(`${url.replace('etcd:', 'http:')}/v3/kv/range`, { method: 'POST', body })
    const { header } = /** @type {{ header: { revision: string } }} */ (await answer.json())
    return Number(header.revision)
  }
  if (server === 'redis') {
    const client = new Redis(url)
    const info = await client.info('commandstats')
    client.disconnect()
    return ['set', 'mset'].reduce((sum, command) => {
      return sum + Number(new RegExp(`^cmdstat_${command}:calls=(\\d+)`, 'm').exec(info)?.[1] ?? 0)
    }, 0)
  }
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query(
    `select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) as writes from pg_stat_user_tables where relname = 'tenure_leases'`,
  )
  await client.end()
  return Number(rows[0].writes)
}

function machineMs() {
  return Number(hrtime.bigint()) / 1e6
}
