/**
 * Runs a fleet on any store, behind networks that lose, delay, and cut connections, while faults are also injected into
 * the server.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, vi } from 'vitest'
import { Random } from '../../packages/testing/src/simulation/random.ts'
import { startProxy, type Proxy } from '../servers/proxy.ts'
import type { RunningServer } from '../servers/server.ts'
import { findViolations, survey } from './check-logs.ts'
import { recordFaultRun } from './fault-record.ts'
import { Fleet, type Member } from './fleet.ts'
import { memberFaults } from './member-faults.ts'
import { networkFaults } from './network-faults.ts'
import { serverOf } from './server-versions.ts'
import { deckOf, injectFaults, type Fault, type Target } from './inject-faults.ts'

/** A server, with the faults that can be injected into it and its data. */
export interface StoreServer extends Pick<RunningServer, 'port' | 'pause'> {
  /** Restarts the server, if its data survives its process. */
  restart?: RunningServer['restart']
  /** Resolves once the server is running as before. */
  resume(): Promise<unknown> | void
  /** Returns the store's URL for a client that reaches the server at this port of this machine. */
  urlAt(port: number): string
  removeRecord(election: string): Promise<unknown>
  /** Overwrites the record with other data, which is removed afterwards. */
  damageRecord(election: string): Promise<unknown>
  /** Removes all data of the store, and possibly all other data on the server as well. */
  wipe(): Promise<unknown>
  /** Invalidates the credentials in the URL until `letIn` is called. */
  lockOut?(): Promise<unknown>
  letIn?(): Promise<unknown>
  /** Sets the server's wall clock, in seconds ahead of the true time. */
  setClock?(seconds: number): Promise<unknown>
}

/** Options of {@link runFaults}. */
export interface FaultRunOptions {
  readonly election: string
  /** The number of processes. Default: 4. */
  readonly size?: number
  /** How long faults occur at random. Default: the variable TENURE_CHAOS_SECONDS, otherwise 30 s. */
  readonly runMs?: number
  /** Faults that only this server has, in addition to {@link serverFaults}. */
  readonly faults?: Readonly<Record<string, Fault<Target>>>
  /** Error codes that are allowed in addition to the usual ones. */
  readonly expectedErrors?: readonly string[]
  readonly env?: (identity: string) => Record<string, string>
  /** Which processes have a guard that releases their lease as soon as they have crashed. Default: none. */
  readonly releaseOnCrash?: (identity: string) => boolean
}

// The deadline is as late as the rules allow, so that a belief that lasts slightly too long is detected.
const timings = { leaseDurationMs: 2_000, renewIntervalMs: 400, renewDeadlineMs: 1_860, retryIntervalMs: 300 }
const { leaseDurationMs } = timings

/** The error codes that these faults may cause. */
const usualErrors = ['TIMEOUT', 'BACKEND_UNAVAILABLE', 'RECORD_INVALID', 'UNAUTHORIZED']

/** The faults of the server and of its data. */
export function serverFaults(server: StoreServer, election: string) {
  const { restart, lockOut, setClock } = server
  return {
    ...(restart && {
      'the server is killed': (_server: Target, random: Random) =>
        restart.call(server, 'SIGKILL', { downForMs: random.between(0, 0.7) * leaseDurationMs }),
    }),
    async 'the server is paused'(_server, random) {
      server.pause()
      await delay(random.between(0.2, 1.5) * leaseDurationMs)
      await server.resume()
    },
    'the record is removed': () => server.removeRecord(election),
    async 'the record is damaged'(_server, random) {
      await server.damageRecord(election)
      await delay(random.between(0.5, 1.2) * leaseDurationMs)
      await server.removeRecord(election)
    },
    ...(lockOut && {
      async 'the password is changed'(_server: Target, random: Random) {
        await lockOut.call(server)
        await delay(random.between(0.5, 1.2) * leaseDurationMs)
        await server.letIn?.()
      },
    }),
    ...(setClock && {
      async 'the clock of the server is set'(_server: Target, random: Random) {
        await setClock.call(server, random.pick([3_600, -3_600]))
      },
    }),
  } satisfies Record<string, Fault<Target>>
}

/**
 * Injects all faults, some of them concurrently, then removes all data of the store while a member leads. Two members
 * must never lead at the same time, no term may be reused or come out of order, and a member must lead at the end.
 */
export async function runFaults(server: StoreServer, options: FaultRunOptions): Promise<void> {
  const { election, faults = {}, expectedErrors = [] } = options
  const runMs = options.runMs ?? Number(process.env['TENURE_CHAOS_SECONDS'] ?? 30) * 1e3
  const seed = Number(process.env['TENURE_CHAOS_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
  const random = new Random(seed)
  const { fleet, networkOf } = await openScene(server, options)
  const how = `seed ${seed}, logs in ${fleet.folder}`
  const { kill, stop, longPause, stepDown } = memberFaults(leaseDurationMs)
  const ofMembers = { ...networkFaults(networkOf, 1.5 * leaseDurationMs), kill, stop, longPause, stepDown }
  const target: Target = { isBusy: false, term: undefined }
  const [toServer, toMembers] = await Promise.all([
    injectFaults([deckOf([target], { ...serverFaults(server, election), ...faults })], {
      random: random.fork(),
      runMs,
      leastFree: 1,
      everyMs: [1_000, 3_000],
    }),
    injectFaults([deckOf(fleet.members, ofMembers)], {
      random,
      runMs,
      leastFree: 2,
      everyMs: [300, 1_200],
      otherwise: 0.3,
    }),
  ])
  const done = new Map([...toServer, ...toMembers])
  const healedMs = await fleet.ledAgainMs()
  const wipedMs = await wipeWhileLed(server, fleet)
  await fleet.stop()

  const lives = await fleet.lives()
  const saw = survey(lives, fleet.guard, fleet.pauses, leaseDurationMs)
  console.log(`faults of ${election}, seed ${seed}:`, Object.fromEntries(done), {
    ...saw,
    processes: lives.length,
    healedMs,
    wipedMs,
  })
  const violations = findViolations(lives, fleet.guard, [...usualErrors, ...expectedErrors])
  const injected = Object.fromEntries(done)
  recordFaultRun(
    { seed, seconds: runMs / 1e3, processes: lives.length, faults: injected, ...saw, violations },
    serverOf,
  )
  expect(violations, how).toEqual([])
  expect(healedMs, how).toBeLessThan(2 * leaseDurationMs + 2_000)
  // The former leader may believe in its term until its lease ends.
  expect(wipedMs, how).toBeLessThan(2 * leaseDurationMs + 2_000)
  // A run with few events proves little.
  expect(Math.min(...done.values()), how).toBeGreaterThan(0)
  expect(saw.terms, how).toBeGreaterThanOrEqual(5)
  expect(saw.byExpiry + saw.byDeath, how).toBeGreaterThanOrEqual(1)
}

/** Gives each process its own proxied network to the server. */
async function openScene(server: StoreServer, options: FaultRunOptions) {
  const { election, size = 4, env, releaseOnCrash } = options
  const proxies = new Map<string, Proxy>()
  const networkOf = ({ identity }: Pick<Member, 'identity'>) => {
    const proxy = proxies.get(identity)
    if (!proxy) throw new Error(`${identity} has no network`)
    return proxy
  }
  const fleet = await Fleet.open({
    size,
    timings,
    election,
    dawdleMs: 2 * leaseDurationMs,
    place: (identity) => ({ store: 'url', url: server.urlAt(networkOf({ identity }).port) }),
    ...(env && { env }),
    ...(releaseOnCrash && { releaseOnCrash }),
  })
  onTestFinished(async ({ task }) => {
    await fleet.close({ keepFolder: task.result?.state === 'fail' })
    for (const proxy of proxies.values()) proxy.stop()
  })
  for (const { identity } of fleet.members) proxies.set(identity, await startProxy(server.port))
  await fleet.start()
  return { fleet, networkOf }
}

/**
 * Returns how long it took until a member led in a higher term. Every member must have seen the wiped term first,
 * because a process that has not seen it does not know that anyone led in it.
 */
async function wipeWhileLed(server: StoreServer, fleet: Fleet): Promise<number> {
  const allSeeOneLeader = () => {
    const { term } = fleet.leader ?? {}
    const sees = ({ messages }: Member) =>
      messages.some(({ event, term: seen }) => event === 'new-leader' && seen === term)
    return term !== undefined && fleet.members.every(sees) ? term : undefined
  }
  const term = await vi.waitUntil(allSeeOneLeader, { timeout: 10 * leaseDurationMs, interval: 5 })
  const wipedAt = performance.now()
  await server.wipe()
  await fleet.nextLeader(term)
  return performance.now() - wipedAt
}
