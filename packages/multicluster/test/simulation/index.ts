/** Simulated clusters in virtual time: real relays, locks, and electors, with faults in everything between them. */
import { Checker, type Counts } from '../../../testing/src/simulation/checker.ts'
import { Random } from '../../../testing/src/simulation/random.ts'
import { Timeline } from '../../../testing/src/simulation/timeline.ts'
import { World } from '../../../testing/src/simulation/world.ts'
import { Cluster } from './cluster.ts'
import { SpecOnlyCandidate } from './spec-only-candidate.ts'
import { faultKinds, Faults, type FaultCounts, type FaultKind } from './faults.ts'
import { globalStores, newGlobal, type GlobalStore, type Scene } from './scene.ts'

/** The parameters of a simulation. The seed determines every option that is omitted. */
export interface ClustersOptions {
  readonly seed: number
  /** The length of the run in minutes of virtual time. Default: 20. */
  readonly minutes?: number
  readonly clusters?: number
  readonly store?: GlobalStore
  readonly relays?: number
  readonly candidates?: number
  readonly faults?: readonly FaultKind[]
  readonly faultEveryMs?: number
  /** The probability that the candidates of a cluster are spec-only. */
  readonly specOnly?: number
  readonly replays?: boolean
}

export interface ClustersReport {
  readonly ok: boolean
  readonly violations: readonly string[]
  readonly counts: Counts & { readonly clusters: number; readonly specOnlyElections: number }
  readonly faults: FaultCounts
  toString(): string
}

const leaseDurationMs = 15_000
const backUpEveryMs = 60_000

export async function simulateClusters(options: ClustersOptions): Promise<ClustersReport> {
  const { seed, minutes = 20 } = options
  const random = new Random(seed)
  const world = new World()
  const timeline = new Timeline(200)
  const driftRatio = random.pick([0.001, 0.01, 0.05])
  const checker = new Checker(world, timeline, {
    belief: true,
    terms: true,
    liveness: true,
    leaseDurationMs: 2 * leaseDurationMs,
    leaderWithinMs: 8 * leaseDurationMs + 30_000,
  })
  const clusters: Cluster[] = []
  const scene: Scene = {
    world,
    random: random.fork(),
    timeline,
    checker,
    leaseDurationMs,
    driftRatio,
    replays: options.replays ?? random.chance(0.1),
    participants: () => clusters.flatMap(({ candidates }) => candidates),
  }
  const global = newGlobal(scene, options.store ?? random.pick(globalStores))
  const count = options.clusters ?? 2 + Math.floor(random.next() * 4)
  const specOnlyChance = options.specOnly ?? random.pick([0, 0, 0.5, 1])
  for (let index = 0; index < count; index += 1) {
    const plan = {
      name: `cluster-${index}`,
      candidates: options.candidates ?? 1 + Math.floor(random.next() * 2),
      relays: options.relays ?? 1 + Math.floor(random.next() * 2),
      isContested: random.chance(0.3),
      kind: random.chance(specOnlyChance) ? ('spec-only' as const) : ('engine' as const),
    }
    clusters.push(new Cluster(scene, global, plan))
  }
  const faults = new Faults(scene, clusters, global, {
    kinds: options.faults ?? faultKinds,
    meanMs: options.faultEveryMs ?? random.magnitude(10_000, 120_000),
  })
  faults.start()
  const backUp = () => {
    for (const cluster of clusters) cluster.backUp()
    world.after(backUpEveryMs, backUp)
  }
  backUp()
  await world.runUntil(minutes * 60_000, () => {
    checker.inspect(scene.participants())
    for (const cluster of clusters) cluster.inspect()
    return checker.violations.length === 0
  })
  faults.stop()
  const specOnly = scene.participants().filter((one) => one instanceof SpecOnlyCandidate)
  const specOnlyElections = specOnly.reduce((sum, { elected }) => sum + elected, 0)
  return report(seed, checker, timeline, faults.counts, { clusters: count, specOnlyElections })
}

function report(
  seed: number,
  { violations, counts }: Checker,
  timeline: Timeline,
  faults: FaultCounts,
  more: { clusters: number; specOnlyElections: number },
): ClustersReport {
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
