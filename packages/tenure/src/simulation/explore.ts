/**
 * Explores every behaviour of a few electors within bounds: every order of messages, timers, crashes and restarts, with at
 * most so many faults, for unlimited time. Where `simulate()` samples, this covers; both run the real engine.
 */
import { invalidOption } from '../errors.ts'
import { checkBoolean, checkOneOf } from '../options.ts'
import { checkOptions, type OptionNames } from '../options/check-options.ts'
import { timingsOf } from '../timings.ts'
import type { ExploredCounts } from './explore/course.ts'
import { exploreSetup, retraceSetup, type ExploredViolation, type ExploreReport } from './explore/run.ts'
import { exploredFaults, leaseDurationMs, type ExploredFault, type Setup } from './explore/scene.ts'

export { exploredFaults, type ExploredCounts, type ExploredFault, type ExploredViolation, type ExploreReport }

/** What to explore. */
export interface ExploreOptions {
  /** How many electors: 1 to 4. Default: 2. */
  readonly electors?: number | undefined
  /** What may go wrong. Default: everything. */
  readonly faults?: readonly ExploredFault[] | undefined
  /** How many faults there may be, in all. Default: 1. */
  readonly budget?: number | undefined
  /** Who judges that a lease has run out: the candidates by observation, or the store by its own clock. Default: observed. */
  readonly expiry?: 'observed' | 'own-clock' | undefined
  /** Whether the store can watch. Default: true. */
  readonly watch?: boolean | undefined
  /** Each number that is left to chance is every one of these, from 0 to below 1. Default: 0. */
  readonly jitter?: readonly number[] | undefined
  /** How fast the first elector's clock runs, the second's, and so on; 1 is true time. Electors allow for the largest error. Default: 1. */
  readonly rates?: readonly number[] | undefined
  /** How many ticks a lease has: 6, or a multiple. Everything that happens, happens at a tick. Default: 12. */
  readonly leaseTicks?: number | undefined
  /** How many ticks a message takes at most; it may take less. Default: 0. */
  readonly delayTicks?: number | undefined
  /** Ends the search when it has taken this long. Default: 60. */
  readonly seconds?: number | undefined
  /** Ends the search when there are more states. Default: 20 million. */
  readonly states?: number | undefined
}

const names: OptionNames<ExploreOptions> = {
  electors: true,
  faults: true,
  budget: true,
  expiry: true,
  watch: true,
  jitter: true,
  rates: true,
  leaseTicks: true,
  delayTicks: true,
  seconds: true,
  states: true,
}

/**
 * Explores. Each run with the same options gives the same report, unless its time is up.
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
 * Goes the way of a violation again, and puts it into words.
 *
 * @example
 * const { violation } = await explore({ budget: 2 })
 * if (violation) console.log(retrace({ budget: 2 }, violation.trace))
 */
export function retrace(options: ExploreOptions, trace: readonly number[]): string {
  return retraceSetup(setupOf(options), options.budget ?? 1, trace)
}

/** What does not change, by the options. */
export function setupOf(options: ExploreOptions): Setup {
  checkOptions('explore()', options, names)
  const { electors = 2, faults = exploredFaults, expiry = 'observed', watch = true, jitter = [0] } = options
  const { rates = [], leaseTicks = 12, delayTicks = 0, budget = 1, seconds = 60, states = 1 } = options
  checkWhole('electors', electors, 1, 4)
  checkWhole('budget', budget, 0, 200)
  checkWhole('leaseTicks', leaseTicks, 6, 48)
  if (leaseTicks % 6 !== 0) throw invalidOption('leaseTicks', leaseTicks, 'it must be a multiple of 6')
  checkWhole('delayTicks', delayTicks, 0, leaseTicks)
  checkWhole('states', states, 1, 2 ** 31)
  if (!(typeof seconds === 'number' && seconds > 0)) throw invalidOption('seconds', seconds, 'it must be above 0')
  checkOneOf('expiry', expiry, ['observed', 'own-clock'])
  checkBoolean('watch', watch)
  for (const [option, value] of Object.entries({ faults, jitter, rates })) {
    if (!Array.isArray(value)) throw invalidOption(option, value, 'it must be an array')
  }
  for (const kind of faults) checkOneOf('faults', kind, exploredFaults)
  const unwatched = options.faults?.find((kind) => kind.startsWith('watch-'))
  if (!watch && unwatched) throw invalidOption('faults', unwatched, 'nobody watches: set "watch", or leave it out')
  if (jitter.length === 0) throw invalidOption('jitter', 'empty', 'it must have a number')
  for (const number of jitter) checkBetween('jitter', number, 0, 1)
  for (const rate of rates) checkBetween('rates', rate, 0.85, 1.15)
  const timings = timingsOf({
    leaseDurationMs,
    retryIntervalMs: leaseDurationMs / 6,
    driftRatio: Math.max(1e-9, ...rates.map((rate) => Math.abs(rate - 1))),
  })
  const settings = Array.from({ length: electors }, (_, index) => ({
    ...timings,
    election: 'e',
    identity: String.fromCodePoint(97 + index),
    metadata: {},
    drainTimeoutMs: leaseDurationMs / 2,
    releaseOnStop: true,
    canWatch: watch,
    terms: true,
    until: 'stopped' as const,
  }))
  const tickMs = leaseDurationMs / leaseTicks
  const ticksMs = settings.map((_, index) => tickMs * (rates[index] ?? 1))
  return { settings, tickMs, ticksMs, faults: new Set(faults), expiry, jitter, delayTicks }
}

function checkWhole(option: string, value: unknown, least: number, most: number): void {
  if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most) return
  throw invalidOption(option, value, `it must be a whole number from ${least} to ${most}`)
}

function checkBetween(option: string, value: unknown, least: number, below: number): void {
  if (typeof value === 'number' && value >= least && value < below) return
  throw invalidOption(option, value, `each must be a number from ${least} to below ${below}`)
}
