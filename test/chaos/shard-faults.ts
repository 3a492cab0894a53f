/** One run of processes that share shards while faults are injected, on any store. */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, vi } from 'vitest'
import { Random } from '../../packages/testing/src/simulation/random.ts'
import { ShardFleet, type Slot } from './shard-fleet.ts'

/** A store, with the faults that are injected into it. */
export interface ShardStore {
  readonly name: string
  /** The port of its server. Undefined if it has none. */
  readonly port?: number
  /** The URL for a client that reaches the server at this port. */
  urlAt(port: number): string
  /** Whether a guard releases the leases of each process as soon as it has crashed. */
  readonly releaseOnCrash?: boolean
  restart?(downForMs: number): Promise<void>
  /** Deletes the group's record, with the assignment. Undefined if the store does not allow it. */
  removeRecord?(group: string): Promise<unknown>
}

/** How large a run is. `all`: every fault occurs, and moves are counted. `some`: three faults, one on the coordinator. */
interface Scale {
  readonly size: number
  readonly shards: number
  readonly keys: number
  readonly faults: 'all' | 'some'
}

const whole: Scale = { size: 8, shards: 256, keys: 10_000, faults: 'all' }
const small: Scale = { size: 3, shards: 32, keys: 1_000, faults: 'some' }

export const leaseDurationMs = 3_000
const seconds = process.env['TENURE_SHARDS_SECONDS']
/** Whether somebody runs these suites by hand. Then every store gets the whole fleet, and faults for this long. */
const isByHand = seconds !== undefined
const faultsMs = Number(seconds ?? 0) * 1e3
/**
 * The lease of a coordinator, the wait of a recovery, and the lease of a member, with the moves to members that must be
 * present for one lease first. Eight processes on a busy machine may lose leases, which costs more.
 */
export const settledWithinMs = 5 * leaseDurationMs + 45_000
export const shardsTimeout = faultsMs * 4 + 300_000

type Fault = (fleet: ShardFleet, slot: Slot, random: Random) => Promise<void>

/** Each fault ends with the slot as it was before: a running process behind an intact network. */
function faultsOf(store: ShardStore): Readonly<Record<string, Fault>> {
  const { removeRecord, restart, port } = store
  return {
    async 'a process is killed'(fleet, slot, random) {
      await fleet.kill(slot)
      await delay(random.between(0, leaseDurationMs))
      fleet.join(slot)
    },
    async [coordinatorKilled](fleet, slot) {
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
    ...(restart && {
      'the server is restarted': (_fleet: ShardFleet, _slot: Slot, random: Random) =>
        restart.call(store, random.between(0, 0.6) * leaseDurationMs),
    }),
    ...(port !== undefined && {
      async 'connections are reset'(_fleet: ShardFleet, { network }: Slot) {
        network?.reset()
      },
      async 'a process is cut off'(_fleet: ShardFleet, { network }: Slot, random: Random) {
        network?.set('blackhole')
        await delay(random.between(0.3, 1.5) * leaseDurationMs)
        network?.set('pass')
        network?.reset()
      },
    }),
    ...(removeRecord && {
      async [onlyOnce](fleet: ShardFleet) {
        // Another fault may have stopped the server.
        const remove = () => removeRecord.call(store, fleet.group)
        await vi.waitFor(remove, { timeout: settledWithinMs, interval: 100 })
      },
    }),
  }
}

const coordinatorKilled = 'the coordinator is killed'
const onlyOnce = "the group's record is deleted"

/** Injects faults, each once before any is repeated, several at the same time, each on another process. */
async function injectFaults(
  fleet: ShardFleet,
  store: ShardStore,
  { faults: which, size }: Scale,
  random: Random,
): Promise<Record<string, number>> {
  const faults = faultsOf(store)
  const done: Record<string, number> = Object.fromEntries(Object.keys(faults).map((name) => [name, 0]))
  const endMs = performance.now() + faultsMs
  let deck: string[] = []
  do {
    if (deck.length === 0) {
      deck = random.shuffle(Object.keys(faults).filter((fault) => fault !== onlyOnce || done[fault] === 0))
      // Of the others, some move no shard.
      if (which === 'some')
        deck = [coordinatorKilled, ...deck.filter((one) => one !== coordinatorKilled)].slice(0, size)
    }
    const slots = random.shuffle(fleet.slots)
    const names = deck.splice(0, faultsMs > 30_000 ? random.pick([1, 2, 3]) : Math.min(4, size))
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

/**
 * One process leaves and joins again, and nothing else happens, so only its shards may move. On a busy machine, a process
 * may lose its lease in the meantime. It reports that, and then the moves are counted again.
 */
async function countMoves(fleet: ShardFleet, random: Random) {
  for (let tries = 1; ; tries += 1) {
    const errors = fleet.errors.length
    const leaver = random.pick(fleet.slots.filter(({ isCoordinator }) => !isCoordinator))
    const before = fleet.grants.size
    await fleet.leave(leaver)
    const leaveMs = await fleet.settledMs(settledWithinMs)
    const between = fleet.grants.size
    fleet.join(leaver)
    const joinMs = await fleet.settledMs(settledWithinMs)
    const isQuiet = fleet.errors.length === errors
    const moves = { leave: between - before, join: fleet.grants.size - between }
    if (isQuiet || tries === 3) return { isQuiet, moves, leaveMs, joinMs }
  }
}

/**
 * Runs processes through faults on one store, and checks S1 and S2 from the logs of all of them. `everyday` is the scale
 * unless `TENURE_SHARDS_SECONDS` is set.
 */
export async function runShards(store: ShardStore, everyday: 'whole' | 'small'): Promise<void> {
  const seed = Number(process.env['TENURE_CHAOS_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
  const scale = isByHand || everyday === 'whole' ? whole : small
  const { shards, keys, size } = scale
  const startedMs = performance.now()
  const urlAt = (at: number) => store.urlAt(at)
  const { port, releaseOnCrash } = store
  const fleet = await ShardFleet.start({ size, shards, keys, leaseDurationMs, releaseOnCrash, port, urlAt })
  for (const slot of fleet.slots) fleet.join(slot)
  const how = `seed ${seed}, logs in ${fleet.folder}`
  const random = new Random(seed)
  const isWhole = scale === whole
  const settle = () => (isWhole ? fleet.settledMs(settledWithinMs) : fleet.ownedMs(settledWithinMs))
  const startMs = await settle()
  const faults = await injectFaults(fleet, store, scale, random)
  const healedMs = await settle()
  // A shard may move between two answers, so this is asked again until the sum is right.
  let owned = 0
  const isWholeSum = async () => (owned = (await fleet.keyCounts()).reduce((sum, count) => sum + count, 0)) === keys
  await vi.waitUntil(isWholeSum, { timeout: settledWithinMs, interval: 100 }).catch(() => undefined)
  const quiet = isWhole ? await countMoves(fleet, random) : undefined
  await Promise.all(fleet.slots.map((slot) => fleet.leave(slot)))

  const check = fleet.check()
  const { accepted, refused, lives, errors } = fleet
  console.log(`shards on ${store.name}, seed ${seed}:`, faults, {
    lives,
    tookMs: Math.round(performance.now() - startedMs),
    startMs: Math.round(startMs),
    healedMs: Math.round(healedMs),
    ...(quiet && { ...quiet, leaveMs: Math.round(quiet.leaveMs), joinMs: Math.round(quiet.joinMs) }),
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
  expect(owned, `every key has one owner, ${how}`).toBe(keys)
  if (quiet?.isQuiet) {
    expect(quiet.moves.leave, how).toBeLessThanOrEqual(Math.ceil(shards / size))
    expect(quiet.moves.join, how).toBeLessThanOrEqual(Math.ceil(shards / size))
  }
  // A run with few events proves little.
  expect(check.grants, how).toBeGreaterThan(isWhole ? 2 * shards : shards)
  expect(accepted, how).toBeGreaterThan(isWhole ? 50 : 0)
  const occurred = Object.values(faults).filter((count) => count > 0).length
  expect(occurred, how).toBe(isWhole ? Object.keys(faults).length : size)
}
