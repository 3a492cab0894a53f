import { setTimeout as sleep } from 'node:timers/promises'
import { LeaseHistory } from '../chaos/lease-history.ts'
import { startProxy } from '../servers/proxy.ts'
import { nowMs } from './beliefs.ts'
import { startApiServerProxy } from './api-server-proxy.ts'
import type { Candidate, Kind, SideBySide } from './side-by-side.ts'

/**
 * Where the latency is added: the API server answers each call later, or the network delivers everything later, so that
 * even opening a connection takes longer.
 */
export type Slowness = 'api-server' | 'network'

/** An election in which each call takes longer. */
export interface SlowElection {
  readonly kind: Kind
  readonly slowness: Slowness
  readonly latencyMs: number
  /** The time from the first request, or the first connection, to the first leader, or undefined if nobody led within two leases. */
  readonly electedAfterMs?: number
  /** How long that leader led, limited to the requested time. */
  readonly keptMs: number
}

/** Whether a leader survived a stall of the API server. */
export interface StalledElection {
  readonly kind: Kind
  readonly stallMs: number
  /** When the stall began, as a fraction of the time between two renewals. */
  readonly phase: number
  readonly kept: boolean
  /** The time from the start of the stall to the end of the belief, or undefined if the leader survived. */
  readonly lostAfterMs?: number
}

let elections = 0

/** Starts two candidates at once, with this latency added to each round trip. */
export async function electSlowly(
  sides: SideBySide,
  kind: Kind,
  { slowness, latencyMs, keepMs }: { slowness: Slowness; latencyMs: number; keepMs: number },
): Promise<SlowElection> {
  const front = await (slowness === 'network' ? slowNetwork(sides, latencyMs) : slowApiServer(sides, latencyMs))
  const election = sides.election(kind, `latency-${++elections}`, front.port)
  const candidates = [election.campaign('a'), election.campaign('b')]
  const beganMs = (await until(() => front.beganMs(), 60_000)) ?? NaN
  const started = await until(
    () => candidates.map((each) => eventOf(each, 'started')).find(Boolean),
    2 * sides.timings.leaseDurationMs,
  )
  if (started === undefined) return { kind, slowness, latencyMs, keptMs: 0 }
  const stopped = await until(() => candidates.map((each) => eventOf(each, 'stopped')).find(Boolean), keepMs)
  const keptMs = stopped ? stopped - started : keepMs
  return { kind, slowness, latencyMs, electedAfterMs: started - beganMs, keptMs }
}

async function slowApiServer(sides: SideBySide, latencyMs: number) {
  const front = await startApiServerProxy(sides.cluster, nowMs)
  sides.onEnd(() => front.stop())
  front.latencyMs = latencyMs
  return { port: front.port, beganMs: () => front.requests[0]?.atMs }
}

async function slowNetwork(sides: SideBySide, latencyMs: number) {
  const proxy = await startProxy(sides.cluster.port)
  sides.onEnd(() => proxy.stop())
  proxy.set({ delayMs: latencyMs / 2 })
  return { port: proxy.port, beganMs: () => (proxy.opened > 0 ? nowMs() : undefined) }
}

/** Stalls the API server for a leader and a standby. */
export async function stallElection(
  sides: SideBySide,
  kind: Kind,
  stallMs: number,
  phase: number,
): Promise<StalledElection> {
  const { cluster, timings } = sides
  const proxy = await startProxy(cluster.port)
  sides.onEnd(() => proxy.stop())
  const election = sides.election(kind, `stall-${++elections}`, proxy.port)
  const history = LeaseHistory.open(cluster, election.leaseName)
  sides.onEnd(() => history.close())
  const leader = election.campaign('a')
  await must(() => eventOf(leader, 'started'))
  election.campaign('b')
  // One renewal while the standby starts, and two more to measure the interval.
  const seen = history.states.length
  await must(() => history.states.length >= seen + 3)
  const [before = NaN, last = NaN] = history.states.slice(-2).map(({ atMs }) => atMs)
  await sleep(last + phase * (last - before) - performance.now())
  proxy.set('hold')
  const stalledMs = nowMs()
  await sleep(stallMs)
  proxy.set('pass')
  // A leader cannot lead for a whole lease without a renewal, so a leader at that time has renewed since.
  const lost = () => eventOf(leader, 'stopped')
  await until(lost, stalledMs + timings.leaseDurationMs - nowMs())
  const lostMs = lost()
  if (lostMs === undefined) return { kind, stallMs, phase, kept: true }
  // Gives a successor time to appear. It must not appear too early.
  await sleep(timings.leaseDurationMs / 2)
  return { kind, stallMs, phase, kept: false, lostAfterMs: lostMs - stalledMs }
}

function eventOf({ events }: Candidate, event: 'started' | 'stopped'): number | undefined {
  return events.find((told) => told.event === event)?.monotonicMs
}

/** Waits until a condition is true, for at most this long. */
async function until<T>(condition: () => T, withinMs: number): Promise<T> {
  const endMs = nowMs() + withinMs
  for (;;) {
    const found = condition()
    if (found || nowMs() >= endMs) return found
    await sleep(20)
  }
}

async function must<T>(condition: () => T): Promise<T> {
  const found = await until(condition, 60_000)
  if (!found) throw new Error(`the condition was not met within a minute: ${condition.toString()}`)
  return found
}
