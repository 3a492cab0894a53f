/**
 * Replicas in virtual time: real replicas, journals, groups, and electors, clients with their own clocks, and faults.
 */
import { Random } from '../../../testing/src/simulation/random.ts'
import { Timeline } from '../../../testing/src/simulation/timeline.ts'
import { World } from '../../../testing/src/simulation/world.ts'
import { Client } from './client.ts'
import { faultKinds, Faults, type Cast, type FaultCounts, type FaultKind } from './faults.ts'
import { History, type Counts } from './history.ts'
import { ReplicaProcess } from './replica-process.ts'
import { leaseStores, newServer, type LeaseStoreKind, type Scene } from './scene.ts'

/** The options of a simulation. The seed determines all omitted options. */
export interface ReplicasOptions {
  readonly seed: number
  /** The duration in virtual minutes. Default: 5. */
  readonly minutes?: number
  readonly replicas?: number
  readonly leases?: LeaseStoreKind
  readonly faults?: readonly FaultKind[]
  readonly faultEveryMs?: number
  /** Whether calls carry the highest term of an active replica that the client has seen. */
  readonly tellsTerms?: boolean
  /** Whether followers keep a copy of the groups. Default: in four of five worlds. */
  readonly keepsCopy?: boolean
  /** The probability that a client that does not lead renews its last term. Default: 0.1. */
  readonly stale?: number
  /** The probability that the next call of a client is a read. Default: 0.15. */
  readonly reads?: number
  /** The probability that a leader resigns instead of renewing. Default: 0.06. */
  readonly resigns?: number
}

export interface ReplicasReport {
  readonly ok: boolean
  readonly violations: readonly string[]
  readonly counts: Counts & { readonly fencedAppends: number; readonly cancelledCommits: number }
  readonly faults: FaultCounts
  toString(): string
}

const leaseMs = 3_000
const groupIds = ['group-a', 'group-b', 'group-c', 'group-d']
/** The time after the last fault in which every lease and every hold expires, and every late message arrives. */
const quietMs = 60_000

export async function simulateReplicas(options: ReplicasOptions): Promise<ReplicasReport> {
  const { seed, minutes = 5 } = options
  const random = new Random(seed)
  const world = new World()
  const timeline = new Timeline(250)
  const history = new History(world, timeline)
  const driftRatio = random.pick([0.001, 0.01, 0.05])
  const keepsCopy = options.keepsCopy ?? seed % 5 !== 0
  const base = { world, random: random.fork(), timeline, history, leaseMs, driftRatio, keepsCopy }
  const scene: Scene = { ...base, server: newServer(base, options.leases ?? random.pick(leaseStores)) }
  const cast = castOf(scene, {
    replicas: options.replicas ?? 3,
    tellsTerms: options.tellsTerms ?? random.chance(0.3),
    stale: options.stale ?? 0.1,
    reads: options.reads ?? 0.15,
    resigns: options.resigns ?? 0.06,
  })
  // Data loss makes all earlier answers doubtful, so it does not occur in most worlds.
  const drawn = random.chance(0.8) ? faultKinds.filter((kind) => kind !== 'lost-tail') : faultKinds
  const faults = new Faults(scene, cast, {
    kinds: options.faults ?? drawn,
    meanMs: options.faultEveryMs ?? random.magnitude(1_500, 15_000),
  })
  const clients = () => cast.clients.map(({ current }) => current)
  const inspect = () => {
    history.inspect(clients())
    return history.violations.length === 0
  }
  faults.start()
  await world.runUntil(minutes * 60_000, inspect)
  faults.stop()
  if (history.violations.length === 0) await calmDown(scene, cast, inspect)
  if (history.violations.length === 0) history.explain()
  const { fenced: fencedAppends, cancelled: cancelledCommits } = scene.server.storage.counts
  return report(seed, history, timeline, faults.counts, { fencedAppends, cancelledCommits })
}

function castOf(
  scene: Scene,
  { replicas, ...habits }: { replicas: number; tellsTerms: boolean; stale: number; reads: number; resigns: number },
): Cast {
  const places = Array.from({ length: replicas }, (_, index) => ({
    current: new ReplicaProcess(scene, `replica-${index + 1}`),
  }))
  const roads = { lost: 0, delayed: 0, delayMs: 0 }
  let born = 0
  const newClient = (groupId: string) =>
    new Client(scene, { name: `client-${++born}`, groupId, replicas: places, roads, ...habits })
  return {
    replicas: places,
    clients: groupIds.flatMap((groupId) => [0, 1].map(() => ({ current: newClient(groupId) }))),
    roads,
    replaceReplica(place) {
      place.current = new ReplicaProcess(scene, place.current.name)
    },
    replaceClient(place) {
      place.current = newClient(place.current.groupId)
    },
  }
}

/**
 * Without faults, one replica is active and every group is served. Then all replicas stop and leave no timers behind.
 */
async function calmDown(scene: Scene, cast: Cast, inspect: () => boolean): Promise<void> {
  const { world, history } = scene
  await world.runUntil(world.nowMs + quietMs, inspect)
  const active = cast.replicas.filter(({ current }) => current.replica.now().kind === 'local')
  if (active.length !== 1) history.violate('liveness', `${active.length} replicas are active`)
  for (const groupId of groupIds) {
    const sinceMs = world.nowMs - (history.servedAtMs.get(groupId) ?? 0)
    if (sinceMs > quietMs / 2) history.violate('liveness', `nobody was confirmed in ${groupId} for ${sinceMs} ms`)
  }
  const stopped = new Set<ReplicaProcess>()
  for (const { current } of cast.clients) current.machine.crash()
  for (const { current } of cast.replicas) void current.replica.stop().then(() => stopped.add(current))
  await world.runUntil(world.nowMs + quietMs, inspect)
  for (const { current } of cast.replicas) {
    const { name, machine } = current
    if (!stopped.has(current)) history.violate('stop', `${name} did not stop`)
    else if (machine.timers > 0) history.violate('stop', `${name} left ${machine.timers} timers behind`)
  }
}

function report(
  seed: number,
  { violations, counts }: History,
  timeline: Timeline,
  faults: FaultCounts,
  more: { fencedAppends: number; cancelledCommits: number },
): ReplicasReport {
  return {
    ok: violations.length === 0,
    violations,
    counts: { ...counts, ...more },
    faults,
    toString: () =>
      violations.length === 0
        ? `seed ${seed}: no violation; seen: ${JSON.stringify({ ...counts, ...more, faults })}`
        : `seed ${seed} violates\n${violations.join('\n')}\n\nWhat led to it:\n${timeline.toString()}`,
  }
}
