import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { newDirectory, serveProcess } from '../../packages/service/test/service-process.ts'
import { Random } from '../../packages/testing/src/simulation/random.ts'
import { etcd, removeKeys } from '../servers/etcd.ts'
import { freePort } from '../servers/free-port.ts'
import { asWhole, postgres } from '../servers/postgres.ts'
import { redis } from '../servers/redis.ts'
import { describeWith } from '../servers/suite.ts'
import { ShardFleet, type Slot } from './shard-fleet.ts'

/** A server, with the faults that are injected into it. */
interface ShardStore {
  readonly name: string
  readonly port: number
  urlAt(port: number): string
  restart(downForMs: number): Promise<void>
  /** Deletes the group's record, with the assignment. Undefined if the server does not allow it. */
  removeRecord?(group: string): Promise<unknown>
}

const size = 8
const shards = 256
const keys = 10_000
const leaseDurationMs = 3_000
/** How long faults occur. Two minutes are run by hand. */
const faultsMs = Number(process.env['TENURE_SHARDS_SECONDS'] ?? 4) * 1e3
/**
 * The lease of a coordinator, the wait of a recovery, and the lease of a member, with the moves to members that must be
 * present for one lease first. Eight processes on a busy machine may lose leases, which costs more.
 */
const settledWithinMs = 5 * leaseDurationMs + 45_000
const timeout = faultsMs * 4 + 180_000

type Fault = (fleet: ShardFleet, slot: Slot, random: Random) => Promise<void>

/** Each fault ends with the slot as it was before: a running process behind an intact network. */
function faultsOf(store: ShardStore): Readonly<Record<string, Fault>> {
  const { removeRecord } = store
  return {
    async 'a process is killed'(fleet, slot, random) {
      await fleet.kill(slot)
      await delay(random.between(0, leaseDurationMs))
      fleet.join(slot)
    },
    async 'the coordinator is killed'(fleet, slot) {
      const target = fleet.coordinator ?? slot
      await fleet.kill(target)
      fleet.join(target)
    },
    async 'a process is paused past its lease'(_fleet, slot, random) {
      const { child } = slot
      slot.isPaused = true
      child?.kill('SIGSTOP')
      await delay(random.between(1.2, 1.8) * leaseDurationMs)
      child?.kill('SIGCONT')
      slot.isPaused = false
    },
    async 'a process leaves and joins'(fleet, slot) {
      await fleet.leave(slot)
      fleet.join(slot)
    },
    'the server is restarted': (_fleet, _slot, random) => store.restart(random.between(0, 0.6) * leaseDurationMs),
    async 'connections are reset'(_fleet, { network }) {
      network.reset()
    },
    async 'a process is cut off'(_fleet, { network }, random) {
      network.set('blackhole')
      await delay(random.between(0.3, 1.5) * leaseDurationMs)
      network.set('pass')
      network.reset()
    },
    ...(removeRecord && {
      async [onlyOnce](fleet: ShardFleet) {
        await removeRecord.call(store, fleet.group)
      },
    }),
  }
}

const onlyOnce = "the group's record is deleted"

/** Injects faults, each once before any is repeated, several at the same time, each on another process. */
async function injectFaults(fleet: ShardFleet, store: ShardStore, random: Random): Promise<Record<string, number>> {
  const faults = faultsOf(store)
  const done = Object.fromEntries(Object.keys(faults).map((name) => [name, 0]))
  const endMs = performance.now() + faultsMs
  let deck: string[] = []
  do {
    if (deck.length === 0) {
      deck = random.shuffle(Object.keys(faults).filter((fault) => fault !== onlyOnce || done[fault] === 0))
    }
    const slots = random.shuffle(fleet.slots)
    const names = deck.splice(0, faultsMs > 30_000 ? random.pick([1, 2, 3]) : 4)
    await Promise.all(
      names.map(async (name, index) => {
        const slot = slots[index]
        if (slot) await faults[name]?.(fleet, slot, random.fork())
        done[name] = (done[name] ?? 0) + 1
      }),
    )
    if (faultsMs > 30_000) await delay(random.between(0, 1.5) * leaseDurationMs)
  } while (deck.length > 0 || performance.now() < endMs)
  return done
}

async function runShards(store: ShardStore): Promise<void> {
  const seed = Number(process.env['TENURE_CHAOS_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
  const { port } = store
  const urlAt = (at: number) => store.urlAt(at)
  const fleet = await ShardFleet.start({ size, shards, keys, leaseDurationMs, port, urlAt })
  const how = `seed ${seed}, logs in ${fleet.folder}`
  const random = new Random(seed)
  const startMs = await fleet.settledMs(settledWithinMs)
  const faults = await injectFaults(fleet, store, random)
  const healedMs = await fleet.settledMs(settledWithinMs)
  const keyCounts = await fleet.keyCounts()

  // Nothing else happens, so only these shards may move.
  const quiet: Record<string, number> = {}
  const leaver = random.pick(fleet.slots.filter(({ isCoordinator }) => !isCoordinator))
  let grants = fleet.grants.size
  await fleet.leave(leaver)
  quiet['leaveMs'] = Math.round(await fleet.settledMs(settledWithinMs))
  quiet['movesOfLeave'] = fleet.grants.size - grants
  grants = fleet.grants.size
  fleet.join(leaver)
  quiet['joinMs'] = Math.round(await fleet.settledMs(settledWithinMs))
  quiet['movesOfJoin'] = fleet.grants.size - grants
  await Promise.all(fleet.slots.map((slot) => fleet.leave(slot)))

  const check = fleet.check()
  const { accepted, refused, lives, errors } = fleet
  console.log(`shards on ${store.name}, seed ${seed}:`, faults, {
    lives,
    startMs: Math.round(startMs),
    healedMs: Math.round(healedMs),
    ...quiet,
    grants: check.grants,
    longestFreeMs: Math.round(check.longestFreeMs),
    violations: check.violations.length,
    accepted,
    refused,
    errors: errors.length,
  })
  expect(check.violations, how).toEqual([])
  expect(check.longestFreeMs, how).toBeLessThan(settledWithinMs)
  expect(fleet.badEnds, how).toEqual([])
  const sum = keyCounts.reduce((total, count) => total + count, 0)
  expect(sum, `every key has one owner, ${how}`).toBe(keys)
  expect(quiet['movesOfLeave'], how).toBeLessThanOrEqual(Math.ceil(shards / size))
  expect(quiet['movesOfJoin'], how).toBeLessThanOrEqual(Math.ceil(shards / size))
  // A run with few events proves little.
  expect(check.grants, how).toBeGreaterThan(2 * shards)
  expect(accepted, how).toBeGreaterThan(100)
  expect(Math.min(...Object.values(faults)), how).toBeGreaterThan(0)
}

// The full run has three processes on these two stores, in test/shards, and eight on the other two.
const testByHand = test.runIf(process.env['TENURE_SHARDS_SECONDS'] !== undefined)

const name = 'eight processes never share a shard, and spread all shards again, whatever fails'

describeWith(postgres, 'shards under faults on PostgreSQL', (server) => {
  testByHand(name, { timeout }, async () => {
    const { port, url } = server()
    const whole = asWhole(server())
    await runShards({
      name: 'PostgreSQL',
      port,
      urlAt: (at) => `postgres://postgres@127.0.0.1:${at}/postgres`,
      restart: (downForMs) => whole.restart('SIGKILL', { downForMs }),
      async removeRecord(group) {
        const client = new Client({ connectionString: url })
        client.on('error', () => {})
        await client.connect()
        await client.query('delete from tenure_leases where election = $1', [group]).catch(() => undefined)
        await client.end()
      },
    })
  })
})

describeWith(redis, 'shards under faults on Redis', (server) => {
  testByHand(name, { timeout }, async () => {
    const { port } = server()
    const admin = new Redis({ port, maxRetriesPerRequest: null })
    admin.on('error', () => {})
    onTestFinished(() => admin.disconnect())
    await runShards({
      name: 'Redis',
      port,
      urlAt: (at) => `redis://127.0.0.1:${at}`,
      restart: (downForMs) => server().restart('SIGKILL', { downForMs }),
      removeRecord: (group) => admin.del(`tenure:{${group}}:lease`),
    })
  })
})

describeWith(etcd, 'shards under faults on etcd', (server) => {
  test(name, { timeout }, async () => {
    await runShards({
      name: 'etcd',
      port: server().port,
      urlAt: (at) => `etcd://127.0.0.1:${at}`,
      restart: (downForMs) => server().restart('SIGKILL', { downForMs }),
      removeRecord: (group) => removeKeys(server(), `tenure/${group}/record`),
    })
  })
})

test(`${name}, on the service`, { timeout }, async () => {
  const directory = newDirectory()
  const port = await freePort()
  let service = await serveProcess(directory, port)
  await runShards({
    name: 'the service',
    port,
    urlAt: (at) => `http://127.0.0.1:${at}`,
    async restart(downForMs) {
      await service.kill()
      await delay(downForMs)
      service = await serveProcess(directory, port)
    },
  })
})
