/** A fleet on a store of one's choice, behind networks that lose, hold up and cut, on a server to which all is done. */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, vi } from 'vitest'
import { Random } from '../../packages/tenure/src/simulation/random.ts'
import { startProxy, type Proxy } from '../servers/proxy.ts'
import type { RunningServer } from '../servers/server.ts'
import { findViolations, survey } from './check.ts'
import { Fleet, type Member } from './fleet.ts'
import { memberFaults } from './member-faults.ts'
import { networkFaults } from './network-faults.ts'
import { deckOf, wreak, type Fault, type Target } from './wreak.ts'

/** A server, and what somebody might do to it by hand. */
export interface StoreServer extends Pick<RunningServer, 'port' | 'pause'> {
  /** Where its data outlive its process. */
  restart?: RunningServer['restart']
  /** Resolves once the server is as before. */
  resume(): Promise<unknown> | void
  /** The store's URL for whoever reaches the server at this port of this machine. */
  urlAt(port: number): string
  removeRecord(election: string): Promise<unknown>
  /** Puts something else where the record is. It is removed afterwards. */
  damageRecord(election: string): Promise<unknown>
  /** Removes all that the store has, and may remove whatever else is on the server. */
  wipe(): Promise<unknown>
  /** The credentials in the URL do not count any more, until `letIn`. */
  lockOut?(): Promise<unknown>
  letIn?(): Promise<unknown>
  /** Sets the server's wall clock, in seconds ahead of the true time. */
  setClock?(seconds: number): Promise<unknown>
}

/** Options of {@link runFaults}. */
export interface FaultRunOptions {
  readonly election: string
  /** How many processes. Default: 4. */
  readonly size?: number
  /** How long things are broken at random. Default: the variable TENURE_CHAOS_SECONDS, else 30 s. */
  readonly runMs?: number
  /** Faults of this server alone, beside those of {@link serverFaults}. */
  readonly faults?: Readonly<Record<string, Fault<Target>>>
  /** Codes that errors may have beside the usual ones. */
  readonly expectedErrors?: readonly string[]
  readonly env?: (identity: string) => Record<string, string>
}

// As late a deadline as the rules allow, so that a belief that lasts a little too long shows.
const timings = { leaseDurationMs: 2_000, renewIntervalMs: 400, renewDeadlineMs: 1_860, retryIntervalMs: 300 }
const { leaseDurationMs } = timings

/** How what is done here may be reported. */
const usualErrors = ['TIMEOUT', 'BACKEND_UNAVAILABLE', 'RECORD_INVALID', 'UNAUTHORIZED']

/** What can happen to the server and to what it keeps. */
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
      async 'the password is another one'(_server: Target, random: Random) {
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
 * Breaks everything, some of it at the same time, then removes all that the store has while somebody leads. Nobody may
 * lead beside another, no term may come twice or out of order, and at the end somebody leads again.
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
    wreak([deckOf([target], { ...serverFaults(server, election), ...faults })], {
      random: random.fork(),
      runMs,
      leastFree: 1,
      everyMs: [1_000, 3_000],
    }),
    wreak([deckOf(fleet.members, ofMembers)], { random, runMs, leastFree: 2, everyMs: [300, 1_200], otherwise: 0.3 }),
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
  expect(findViolations(lives, fleet.guard, [...usualErrors, ...expectedErrors]), how).toEqual([])
  expect(healedMs, how).toBeLessThan(2 * leaseDurationMs + 2_000)
  // Whoever led may believe in it for as long as its lease lasts.
  expect(wipedMs, how).toBeLessThan(2 * leaseDurationMs + 2_000)
  // A run that saw little proves little.
  expect(Math.min(...done.values()), how).toBeGreaterThan(0)
  expect(saw.terms, how).toBeGreaterThanOrEqual(5)
  expect(saw.byExpiry + saw.byDeath, how).toBeGreaterThanOrEqual(1)
}

/** Each process has a network of its own between itself and the server. */
async function openScene(server: StoreServer, { election, size = 4, env }: FaultRunOptions) {
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
 * Gives how long it took until somebody led in a higher term. Everybody has seen the term that is wiped: to a process
 * that knows less than the server did, nobody ever led in it.
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
