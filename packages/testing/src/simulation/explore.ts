/**
 * A model checker: explores every behavior of a few electors within bounds. It covers every order of messages, timers,
 * crashes, and restarts, with a limited number of faults, over unlimited time. `simulate()` samples runs, and
 * `explore()` covers all of them. Both run the real engine.
 */
import type { Priority } from 'tenure'
import {
  checkBoolean,
  checkOneOf,
  checkOptions,
  invalidOption,
  type OptionNames,
  priorities,
  timingsOf,
} from 'tenure/internal'
import type { ExploredCounts } from './explore/checker.ts'
import { exploreSetup, retraceSetup, type ExploredViolation, type ExploreReport } from './explore/run.ts'
import {
  exploredFaults,
  leaseDurationMs,
  preferenceFaults,
  type ExploredFault,
  type Setup,
} from './explore/model-state.ts'

export {
  exploredFaults,
  preferenceFaults,
  type ExploredCounts,
  type ExploredFault,
  type ExploredViolation,
  type ExploreReport,
}

/** What to explore. */
export interface ExploreOptions {
  /** The number of electors, 1 to 4. Default: 2. */
  readonly electors?: number | undefined
  /** The kinds of fault that may occur. Default: all but those that are about who should lead. */
  readonly faults?: readonly ExploredFault[] | undefined
  /** The maximum number of faults in a run. Default: 1. */
  readonly budget?: number | undefined
  /**
   * Who decides that a lease has expired: the candidates by observation, or the store by its own clock. Default:
   * observed.
   */
  readonly expiry?: 'observed' | 'own-clock' | undefined
  /** Whether the store supports watches. Default: true. */
  readonly watch?: boolean | undefined
  /** Whether each process has a guard that releases its lease after a crash. Default: false. */
  readonly releaseOnCrash?: boolean | undefined
  /** Whether each campaign begins with a read: see `LeaseStore.readsFirst`. Default: false. */
  readonly readsFirst?: boolean | undefined
  /** The values to try for each random number, each at least 0 and below 1. Default: only 0. */
  readonly jitter?: readonly number[] | undefined
  /**
   * The clock rate of each elector, in order; 1 is true time. Electors allow for the largest error. Default: 1 for
   * each.
   */
  readonly rates?: readonly number[] | undefined
  /**
   * The priority of each elector, in order. Default: `normal` for each. Every elector is asked whether it is eligible if
   * `faults` has `ineligible`, and must report progress if it has `no-progress`.
   */
  readonly priorities?: readonly Priority[] | undefined
  /**
   * Whether the first elector may see, at any time, a present member of a newer generation than its own, which is none
   * of the electors. Default: false.
   */
  readonly newerGeneration?: boolean | undefined
  /**
   * How many ticks may pass without a leader while every process runs, is eligible, and no fault occurs. Default: three
   * leases.
   */
  readonly leaderWithinTicks?: number | undefined
  /** The number of ticks in a lease, a multiple of 6. Every event happens at a tick. Default: 12. */
  readonly leaseTicks?: number | undefined
  /** The maximum number of ticks that a message takes. Default: 0. */
  readonly delayTicks?: number | undefined
  /** Ends the search after this many seconds. Default: 60. */
  readonly seconds?: number | undefined
  /** Ends the search at this many states. Default: 20 million. */
  readonly states?: number | undefined
}

const withoutPreference = exploredFaults.filter((kind) => !preferenceFaults.some((one) => one === kind))

const names: OptionNames<ExploreOptions> = {
  electors: true,
  faults: true,
  budget: true,
  expiry: true,
  watch: true,
  releaseOnCrash: true,
  readsFirst: true,
  jitter: true,
  rates: true,
  priorities: true,
  newerGeneration: true,
  leaderWithinTicks: true,
  leaseTicks: true,
  delayTicks: true,
  seconds: true,
  states: true,
}

/**
 * Runs the exploration. The same options give the same report, unless the time limit is reached.
 *
 * @example
 * const report = await explore({ electors: 2, budget: 1, faults: ['crash', 'stall'] })
 * assert.ok(report.ok && report.complete, String(report))
 */
export async function explore(options: ExploreOptions = {}): Promise<ExploreReport> {
  const setup = setupOf(options)
  const { budget = 1, seconds = 60, states = 20_000_000 } = options
  return exploreSetup(setup, budget, { seconds, states })
}

/**
 * Replays the trace of a violation and describes each step in words.
 *
 * @example
 * const { violation } = await explore({ budget: 2 })
 * if (violation) console.log(retrace({ budget: 2 }, violation.trace))
 */
export function retrace(options: ExploreOptions, trace: readonly number[]): string {
  return retraceSetup(setupOf(options), options.budget ?? 1, trace)
}

/** Returns the constants of an exploration with these options. */
export function setupOf(options: ExploreOptions): Setup {
  checkOptions('explore()', options, names)
  const { electors = 2, faults = withoutPreference, expiry = 'observed', watch = true, jitter = [0] } = options
  const { rates = [], leaseTicks = 12, delayTicks = 0, budget = 1, seconds = 60, states = 1 } = options
  const { releaseOnCrash = false, readsFirst = false, leaderWithinTicks } = options
  const { priorities: wanted = [], newerGeneration = false } = options
  checkWhole('electors', electors, 1, 4)
  checkWhole('budget', budget, 0, 200)
  checkWhole('leaseTicks', leaseTicks, 6, 48)
  if (leaseTicks % 6 !== 0) throw invalidOption('leaseTicks', leaseTicks, 'it must be a multiple of 6')
  checkWhole('delayTicks', delayTicks, 0, leaseTicks)
  checkWhole('states', states, 1, 2 ** 31)
  if (!(typeof seconds === 'number' && seconds > 0)) throw invalidOption('seconds', seconds, 'it must be above 0')
  checkOneOf('expiry', expiry, ['observed', 'own-clock'])
  checkBoolean('watch', watch)
  checkBoolean('releaseOnCrash', releaseOnCrash)
  checkBoolean('newerGeneration', newerGeneration)
  checkBoolean('readsFirst', readsFirst)
  if (readsFirst && expiry === 'own-clock') {
    const why = 'a read does not show when such a store treats a lease as expired'
    throw invalidOption('readsFirst', readsFirst, `it cannot be combined with expiry "own-clock", because ${why}`)
  }
  if (leaderWithinTicks !== undefined) checkWhole('leaderWithinTicks', leaderWithinTicks, 1, 4 * leaseTicks)
  for (const [option, value] of Object.entries({ faults, jitter, rates, priorities: wanted })) {
    if (!Array.isArray(value)) throw invalidOption(option, value, 'it must be an array')
  }
  for (const kind of faults) checkOneOf('faults', kind, exploredFaults)
  const unwatched = options.faults?.find((kind) => kind.startsWith('watch-'))
  if (!watch && unwatched)
    throw invalidOption('faults', unwatched, 'no elector watches: set "watch" to true, or omit it')
  if (!releaseOnCrash && options.faults?.includes('closed-pipe'))
    throw invalidOption('faults', 'closed-pipe', 'no process has a guard: set "releaseOnCrash" to true')
  for (const priority of wanted) checkOneOf('priorities', priority, priorities)
  if (jitter.length === 0) throw invalidOption('jitter', 'empty', 'it must have at least one number')
  for (const number of jitter) checkBetween('jitter', number, 0, 1)
  for (const rate of rates) checkBetween('rates', rate, 0.85, 1.15)
  const timings = timingsOf({
    leaseDurationMs,
    retryIntervalMs: leaseDurationMs / 6,
    driftRatio: Math.max(1e-9, ...rates.map((rate) => Math.abs(rate - 1))),
  })
  const asksProgress = options.faults?.includes('no-progress') === true
  const settings = Array.from({ length: electors }, (_, index) => ({
    ...timings,
    election: 'e',
    identity: String.fromCodePoint(97 + index),
    metadata: {},
    drainTimeoutMs: leaseDurationMs / 2,
    releaseOnStop: true,
    asks: asksProgress || options.faults?.includes('ineligible') === true,
    priority: wanted[index] ?? ('normal' as const),
    ineligibleForMs: 2 * timings.retryIntervalMs,
    progressTimeoutMs: asksProgress ? leaseDurationMs / 2 : Infinity,
    canWatch: watch,
    readsFirst,
    terms: true,
    until: 'stopped' as const,
    waitMs: 0,
  }))
  const tickMs = leaseDurationMs / leaseTicks
  const ticksMs = settings.map((_, index) => tickMs * (rates[index] ?? 1))
  const how = { expiry, jitter, delayTicks, isGuarded: releaseOnCrash, newerGeneration, leaderWithinTicks }
  return { settings, tickMs, ticksMs, faults: new Set(faults), ...how }
}

function checkWhole(option: string, value: unknown, least: number, most: number): void {
  if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most) return
  throw invalidOption(option, value, `it must be a whole number from ${least} to ${most}`)
}

function checkBetween(option: string, value: unknown, least: number, below: number): void {
  if (typeof value === 'number' && value >= least && value < below) return
  throw invalidOption(option, value, `each must be a number of at least ${least} and below ${below}`)
}
