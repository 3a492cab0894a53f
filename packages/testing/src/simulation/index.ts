/**
 * A deterministic simulator that runs whole fleets of the real engine in virtual time and injects every kind of fault.
 * A seed reproduces a run exactly.
 */
import { type Clock, type CompareAndSwap, TenureError } from 'tenure'
import { checkBoolean, checkDuration, checkOneOf, checkOptions, invalidOption, type OptionNames } from 'tenure/internal'
import type { Candidate } from './candidate.ts'
import { Checker, type Counts } from './checker.ts'
import { faultKinds, Faults, guardFaults, preferenceFaults, type FaultKind } from './faults.ts'
import { SimulatedFleet, keepsTerms, storeNames, type BackendChoice, type StoreChoice } from './fleet.ts'
import { Random } from './random.ts'
import { Timeline } from './timeline.ts'
import { World } from './world.ts'

export { faultKinds } from './faults.ts'
export type { Counts, FaultKind, StoreChoice }
export { explore, exploredFaults, preferenceFaults, retrace } from './explore.ts'
export type { ExploredCounts, ExploredFault, ExploredViolation, ExploreOptions, ExploreReport } from './explore.ts'

/** What to simulate. */
export interface SimulationOptions {
  /** Determines every random choice of the run. */
  readonly seed: number
  /** The length of the run in hours of virtual time. Default: 1. */
  readonly hours?: number | undefined
  /** The number of electors. Default: 5 to 8, depending on the seed. */
  readonly electors?: number | undefined
  /** The lease duration of every elector. Default: 15 s. */
  readonly leaseDurationMs?: number | undefined
  /**
   * The store of the fleet. A function creates a store under test with the server's clock. Default: depends on the
   * seed.
   */
  readonly store?: StoreChoice | undefined
  /** A backend under test for `casStore`, instead of `store`. Its reads and writes are separate messages. */
  readonly backend?: ((clock: Clock) => CompareAndSwap) | undefined
  /** The kinds of fault that may occur. Default: all. */
  readonly faults?: readonly FaultKind[] | undefined
  /** The mean time between two faults. Default: 20 s to 5 minutes, depending on the seed. */
  readonly faultEveryMs?: number | undefined
  /** Whether the server keeps replaying past events to watches. Default: depends on the seed. */
  readonly replays?: boolean | undefined
  /** Whether the store answers slowly, up to a sixth of the lease. Default: depends on the seed. */
  readonly slow?: boolean | undefined
  /**
   * Whether each process has a guard that releases its lease after a crash. Default: in every fourth run, by its seed.
   */
  readonly releaseOnCrash?: boolean | undefined
  /**
   * Whether the processes have priorities, become ineligible, stop making progress, and hand over by name. Default: in
   * every third run, by its seed.
   */
  readonly preference?: boolean | undefined
  /**
   * Whether processes with a preference take seats among the members, have generations, and hand over on request. It
   * takes ten times as long. A store under test must keep more than one election. Default: in every sixtieth run, by
   * its seed, on a store of the library.
   */
  readonly present?: boolean | undefined
  /**
   * Lets clock rates be wrong by more than the electors allow for. Two leaders may then overlap, but fencing must still
   * hold.
   */
  readonly clocksBeyondBound?: boolean | undefined
}

const names: OptionNames<SimulationOptions> = {
  seed: true,
  hours: true,
  electors: true,
  leaseDurationMs: true,
  store: true,
  backend: true,
  faults: true,
  faultEveryMs: true,
  replays: true,
  slow: true,
  releaseOnCrash: true,
  preference: true,
  present: true,
  clocksBeyondBound: true,
}

/** The result. A test asserts `ok` and prints `toString()` if it is false. */
export interface SimulationReport {
  readonly seed: number
  readonly ok: boolean
  readonly hours: number
  readonly violations: readonly string[]
  readonly counts: Counts
  /** The seed, the violations, and the events that led to them. */
  toString(): string
}

/**
 * Simulates one fleet.
 *
 * @example
 * const report = await simulate({ seed: 7, store: (clock) => myStore({ clock }) })
 * assert.ok(report.ok, String(report))
 */
export async function simulate(options: SimulationOptions): Promise<SimulationReport> {
  checkOptions('simulate()', options, names)
  checkValues(options)
  const { seed, hours = 1, leaseDurationMs = 15_000 } = options
  const random = new Random(seed)
  const world = new World()
  const timeline = new Timeline(200)
  const { backend } = options
  const store = backend ? { backend } : (options.store ?? drawStore(random))
  const isGuarded = options.releaseOnCrash ?? seed % 4 === 0
  const isPreferring = options.preference ?? seed % 3 === 0
  const isPresent = options.present ?? (isPreferring && seed % 60 === 0 && typeof store === 'string')
  const possible = (options.faults ?? faultKinds)
    .filter((kind) => isGuarded || !guardFaults.includes(kind))
    .filter((kind) => isPreferring || !preferenceFaults.includes(kind))
  const kinds = drawFaults(random, possible, store)
  const driftRatio = random.pick([0.001, 0.01, 0.05])
  // A tenth of the fleets have members with different lease durations.
  const mixed = random.chance(0.1)
  const shortestLeaseMs = mixed ? leaseDurationMs / 2 : leaseDurationMs
  const longestLeaseMs = mixed ? leaseDurationMs * 2 : leaseDurationMs
  const slow = options.slow ?? random.chance(0.1)
  // The successor's wait, the lowest priority, and a newer generation, each in two of the longest retry intervals.
  const preferenceMs = isPreferring ? longestLeaseMs * (isPresent ? 4 : 3) * 2 * (2 / 15) : 0
  const checker = new Checker(world, timeline, {
    belief: !options.clocksBeyondBound,
    terms: store === 'memory' || !kinds.includes('deleted-record'),
    liveness: !options.clocksBeyondBound,
    leaseDurationMs: longestLeaseMs,
    leaderWithinMs:
      leaderWithinMs(kinds, store, longestLeaseMs, driftRatio, isGuarded) + (slow ? longestLeaseMs : 0) + preferenceMs,
  })
  const ofFleet = random.fork()
  const size = options.electors ?? 5 + Math.floor(random.next() * 4)
  const fleet = new SimulatedFleet(world, ofFleet, timeline, checker, {
    size,
    store,
    // An answer takes twice as long, plus up to half of that at random.
    latenciesMs: slow ? [shortestLeaseMs / 40, shortestLeaseMs / 18] : [0.5, 30],
    leaseDurationsMs: mixed ? [leaseDurationMs, shortestLeaseMs, longestLeaseMs] : [leaseDurationMs],
    driftRatio,
    timings: random.pick(['tight', 'tight', 'tight', 'usual', 'frequent']),
    replayEveryMs: (options.replays ?? random.chance(0.1)) ? leaseDurationMs / 15 : Infinity,
    clockErrorRatio: options.clocksBeyondBound ? 0.3 : driftRatio,
    habits: {
      windDownMs: random.pick([0, 100, leaseDurationMs, 2.5 * leaseDurationMs]),
      writeDelayMs: leaseDurationMs * 4,
      writeEveryMs: leaseDurationMs,
    },
    stoppedForMs: 3 * leaseDurationMs,
    isGuarded,
    isPreferring,
    seats: isPresent ? size + random.pick([2, 3, -1]) : 0,
  })
  const meanMs = options.faultEveryMs ?? random.magnitude(20_000, 300_000)
  // Short leases and slow answers leave no slack for faults that are otherwise harmless.
  const fragile = slow || mixed
  const faultOptions = {
    world,
    random: random.fork(),
    timeline,
    checker,
    fleet,
    kinds,
    leaseDurationMs,
    meanMs,
    fragile,
  }
  const faults = new Faults(faultOptions)
  faults.start()
  await world.runUntil(hours * 3_600_000, () => {
    checker.inspect(fleet.candidates)
    return checker.violations.length === 0 && !checker.unusable
  })
  faults.stop()
  if (checker.unusable) throw unusable(store, checker.unusable)
  if (checker.violations.length === 0) await stopAll(world, fleet, checker)
  return report(seed, hours, checker, timeline)
}

function unusable(store: StoreChoice | BackendChoice, cause: TenureError): TenureError {
  const what =
    typeof store === 'object'
      ? 'backend under test returned a value that no casStore'
      : 'store returned a value that no elector'
  return new TenureError('RECORD_INVALID', `The ${what} can use: ${cause.message}`, { cause })
}

function checkValues(options: SimulationOptions): void {
  const { seed, hours = 1, electors = 1, leaseDurationMs = 15_000, store, faults = [] } = options
  if (!Number.isSafeInteger(seed)) throw invalidOption('seed', seed, 'it must be a whole number')
  if (!(typeof hours === 'number' && hours > 0)) throw invalidOption('hours', hours, 'it must be a number above 0')
  if (!(Number.isSafeInteger(electors) && electors >= 1)) {
    throw invalidOption('electors', electors, 'it must be a whole number of at least 1')
  }
  checkDuration('leaseDurationMs', leaseDurationMs, 1_000)
  if (store !== undefined && typeof store !== 'function') checkOneOf('store', store, storeNames)
  for (const kind of faults) checkOneOf('faults', kind, faultKinds)
  if (options.releaseOnCrash !== undefined) checkBoolean('releaseOnCrash', options.releaseOnCrash)
  if (options.preference !== undefined) checkBoolean('preference', options.preference)
  if (options.present !== undefined) checkBoolean('present', options.present)
}

/** I10: the bound can be exact only if crashes are the only fault. */
function leaderWithinMs(
  kinds: readonly FaultKind[],
  store: StoreChoice | BackendChoice,
  leaseDurationMs: number,
  driftRatio: number,
  isGuarded: boolean,
): number {
  const onlyCrashes = kinds.every((kind) => kind === 'crash' || kind === 'wall-jump' || kind === 'touched-record')
  const isWatched = keepsTerms(store) || store === 'cas-watched'
  const pollMs = isWatched ? 0 : leaseDurationMs / 2
  // A guard checks for up to a second whether its process has ended. Then it reads and releases.
  if (onlyCrashes && isGuarded && isWatched) return 2_000
  if (onlyCrashes) return (leaseDurationMs * 1.01) / (1 - driftRatio) + pollMs + 500
  // The sum of a step-down's cooldown, a wind-down, a lease that expires, and a few tries.
  return leaseDurationMs * 4 + 30_000
}

function drawStore(random: Random): StoreChoice {
  // Polling fleets cost the most to simulate, so there are few of them.
  const draw = random.next()
  return draw < 0.4 ? 'memory' : draw < 0.65 ? 'swap-watched' : draw < 0.9 ? 'cas-watched' : 'cas-polled'
}

/**
 * A `casStore` loses its terms with its record, and a process that starts later cannot know them, as its guarantee
 * table says. A fleet on it therefore gets either deletions or new processes, never both.
 */
function drawFaults(
  random: Random,
  faults: readonly FaultKind[],
  store: StoreChoice | BackendChoice,
): readonly FaultKind[] {
  if (typeof store !== 'string') return faults.filter((kind) => kind !== 'deleted-record')
  if (keepsTerms(store) || !faults.includes('deleted-record')) return faults
  const excluded: readonly FaultKind[] = random.chance(0.3) ? ['crash', 'stop'] : ['deleted-record']
  return faults.filter((kind) => !excluded.includes(kind))
}

/** I11: every elector stops within a bounded time and leaves nothing behind. */
async function stopAll(world: World, fleet: SimulatedFleet, checker: Checker): Promise<void> {
  const alive = fleet.candidates.filter(({ machine }) => machine.state !== 'dead')
  const stopped = new Set<Candidate>()
  for (const candidate of alive) {
    candidate.machine.resume()
    void candidate.elector.stop().then(() => stopped.add(candidate))
  }
  await world.runUntil(world.nowMs + 8_000_000, () => checker.violations.length === 0)
  for (const candidate of alive) {
    const { name, machine, link } = candidate
    if (machine.state === 'dead') continue
    if (!stopped.has(candidate)) checker.violate('I11', `${name} did not stop`)
    if (machine.timers > 0) checker.violate('I11', `${name} left ${machine.timers} timers behind`)
    if (link.watches > 0) checker.violate('I11', `${name} left ${link.watches} watches open`)
  }
}

function report(seed: number, hours: number, checker: Checker, timeline: Timeline): SimulationReport {
  const { violations, counts } = checker
  return {
    seed,
    ok: violations.length === 0,
    hours,
    violations,
    counts,
    toString: () =>
      violations.length === 0
        ? `seed ${seed}: ${hours} hour(s) without a violation; seen: ${JSON.stringify(counts)}`
        : `seed ${seed} violates\n${violations.join('\n')}\n\nWhat led to it:\n${timeline.toString()}`,
  }
}
