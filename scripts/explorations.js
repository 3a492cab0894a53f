// The explorations, and the command that runs each of them. `npm run explore` runs all of them and writes the table in
// docs/explanation/exploration.md. Each test suite runs its share.

import { exploredFaults, preferenceFaults } from '@tenure/testing/simulation'

/** @typedef {import('@tenure/testing/simulation').ExploreOptions} ExploreOptions */
/** @typedef {{ readonly name: string, readonly by: 'npm test' | 'npm run test:all' | 'npm run explore', readonly options: ExploreOptions }} Exploration */

/** Ticks of a sixth of the lease: renewal after 2, deadline after 4, retry after 1. */
const coarse = { leaseTicks: 6, seconds: 3_600 }
const fine = { ...coarse, leaseTicks: 12 }
const finest = { ...coarse, leaseTicks: 24 }
const poll = { watch: false }

/** All kinds of fault for processes without a guard and without a preference. */
const unguarded = exploredFaults.filter(
  (kind) => kind !== 'closed-pipe' && !preferenceFaults.some((one) => one === kind),
)

/** All kinds of fault for stores without a watch. */
const unwatched = unguarded.filter((kind) => !kind.startsWith('watch-'))

/**
 * The bounds of the rows below: a lease of 6 ticks, a wait for the successor, and two waits for the lowest priority. A
 * wait is one tick, or two ticks without a watch, and a poll takes one more.
 */
const preferring = { priorities: /** @type {const} */ (['lowest', 'low']) }

/** The first elector sees a newer generation, which counts as one more wait. */
const outdated = { ...preferring, newerGeneration: true }

/** @type {readonly Exploration[]} */
export const explorations = [
  { name: 'two electors that poll', by: 'npm test', options: { ...coarse, ...poll, faults: unwatched } },
  {
    name: 'two electors that watch; faults of calls and watches',
    by: 'npm test',
    options: { ...coarse, faults: ['lost', 'failed', 'watch-end', 'watch-replay'] },
  },
  {
    name: 'two electors that poll, in finer time',
    by: 'npm run test:all',
    options: { ...fine, ...poll, faults: unwatched },
  },
  {
    name: 'two electors that watch',
    by: 'npm run test:all',
    options: { ...coarse, faults: unguarded },
  },
  {
    name: 'two electors that read first and poll',
    by: 'npm run test:all',
    options: { ...coarse, ...poll, readsFirst: true, faults: unwatched },
  },
  {
    name: 'two electors that read first and watch',
    by: 'npm run test:all',
    options: { ...coarse, readsFirst: true, faults: unguarded },
  },
  {
    name: 'a store that judges by its own clock',
    by: 'npm run test:all',
    options: { ...coarse, ...poll, expiry: 'own-clock', faults: unwatched },
  },
  {
    name: 'two faults: calls and crashes',
    by: 'npm run test:all',
    options: { ...coarse, ...poll, budget: 2, faults: ['crash', 'lost', 'failed'] },
  },
  {
    name: 'two faults: handovers that are disturbed',
    by: 'npm run test:all',
    options: { ...coarse, ...poll, budget: 2, faults: ['step-down', 'lost-swap'] },
  },
  {
    name: 'two faults: electors that watch',
    by: 'npm run test:all',
    options: { ...coarse, budget: 2, faults: ['crash', 'lost', 'watch-end'] },
  },
  {
    name: 'three electors that poll',
    by: 'npm run test:all',
    options: { ...coarse, ...poll, electors: 3, faults: ['crash'] },
  },
  {
    name: 'clocks an eighth too slow and too fast',
    by: 'npm run test:all',
    options: { ...coarse, ...poll, rates: [0.875, 1.125], faults: ['crash', 'stall'] },
  },
  {
    name: 'two values for every random number',
    by: 'npm run test:all',
    options: { ...coarse, ...poll, jitter: [0, 0.5], faults: ['crash', 'stall', 'lost'] },
  },
  {
    name: 'messages that take up to a tick',
    by: 'npm run test:all',
    options: { ...finest, delayTicks: 1, budget: 0, faults: [] },
  },
  {
    name: 'two electors with guards that poll',
    by: 'npm run test:all',
    options: {
      ...coarse,
      ...poll,
      releaseOnCrash: true,
      faults: ['crash', 'closed-pipe', 'stall', 'stop', 'lost', 'late', 'step-down'],
    },
  },
  {
    name: 'two electors with guards that watch',
    by: 'npm run test:all',
    options: { ...coarse, releaseOnCrash: true, faults: ['crash', 'closed-pipe'] },
  },
  {
    name: 'handovers by name, and priorities',
    by: 'npm run test:all',
    options: { ...coarse, ...preferring, faults: ['hand-over', 'crash'], leaderWithinTicks: 9 },
  },
  {
    name: 'handovers by name, and priorities, of electors that poll',
    by: 'npm run test:all',
    options: { ...coarse, ...poll, ...preferring, faults: ['hand-over', 'crash'], leaderWithinTicks: 13 },
  },
  {
    name: 'one elector that is unfit, or hands over to nobody',
    by: 'npm test',
    options: {
      ...coarse,
      electors: 1,
      priorities: ['lowest'],
      faults: ['step-down', 'hand-over', 'ineligible', 'no-progress'],
      leaderWithinTicks: 8,
    },
  },
  {
    name: 'electors that are not eligible, and that poll',
    by: 'npm run test:all',
    options: { ...coarse, ...poll, faults: ['ineligible'], leaderWithinTicks: 13 },
  },
  {
    name: 'electors whose work makes no progress, and that poll',
    by: 'npm run explore',
    options: { ...coarse, ...poll, faults: ['no-progress'], leaderWithinTicks: 13 },
  },
  {
    name: 'one elector of an older generation',
    by: 'npm test',
    options: {
      ...coarse,
      ...outdated,
      electors: 1,
      faults: ['crash', 'step-down', 'hand-over'],
      leaderWithinTicks: 10,
    },
  },
  {
    name: 'one elector of an older generation, and that polls',
    by: 'npm test',
    options: {
      ...coarse,
      ...poll,
      ...outdated,
      electors: 1,
      faults: ['crash', 'step-down', 'hand-over'],
      leaderWithinTicks: 13,
    },
  },
  {
    name: 'two electors, one of an older generation',
    by: 'npm run explore',
    options: { ...coarse, ...outdated, faults: ['crash', 'hand-over'], leaderWithinTicks: 9 },
  },
  {
    name: 'two electors that watch, in finer time',
    by: 'npm run explore',
    options: { ...fine, faults: unguarded },
  },
  {
    name: 'two faults of any kind',
    by: 'npm run explore',
    options: { ...coarse, ...poll, budget: 2, faults: unwatched },
  },
  {
    name: 'three faults: crashes, stops and lost calls',
    by: 'npm run explore',
    options: { ...coarse, ...poll, budget: 3, faults: ['crash', 'stop', 'lost'] },
  },
  {
    name: 'two faults: crashes of processes with guards',
    by: 'npm run explore',
    options: { ...coarse, ...poll, releaseOnCrash: true, budget: 2, faults: ['crash'] },
  },
  {
    name: 'three electors that watch',
    by: 'npm run explore',
    options: { ...coarse, electors: 3, faults: ['crash'] },
  },
  {
    name: 'three electors that poll; stalls',
    by: 'npm run explore',
    options: { ...coarse, ...poll, electors: 3, faults: ['stall'] },
  },
  {
    name: 'messages that take up to a tick; crashes',
    by: 'npm run explore',
    options: { ...finest, ...poll, delayTicks: 1, faults: ['crash'] },
  },
]

/**
 * Returns a row of the table.
 *
 * @param {Exploration} exploration
 * @param {import('@tenure/testing/simulation').ExploreReport} report
 */
export function rowOf({ name, by, options }, { complete, states, transitions, counts }) {
  const { electors = 2, budget = 1, watch = true, expiry = 'observed', leaseTicks = 12, faults = [] } = options
  const { delayTicks, rates, jitter, releaseOnCrash, readsFirst, priorities, newerGeneration, leaderWithinTicks } =
    options
  const how = [
    `${electors} electors`,
    watch ? 'watch' : 'poll',
    ...(readsFirst ? ['read first'] : []),
    expiry,
    `${leaseTicks} ticks`,
    ...(delayTicks ? [`delay 0 to ${delayTicks}`] : []),
    ...(releaseOnCrash ? ['guards'] : []),
    ...(rates ? [`rates ${rates.join(', ')}`] : []),
    ...(jitter ? [`jitter ${jitter.join(', ')}`] : []),
    ...(priorities ? [`priorities ${priorities.join(', ')}`] : []),
    ...(newerGeneration ? ['a newer generation'] : []),
    ...(leaderWithinTicks ? [`a leader within ${leaderWithinTicks} ticks`] : []),
  ]
  const kinds = faults.length >= unwatched.length ? 'any kind' : faults.join(', ')
  const size = `${states.toLocaleString('en')} states, ${transitions.toLocaleString('en')} transitions`
  const seen = `${counts.handovers} handovers, ${counts.expiries} expiries, ${counts.unknownOutcomes} unknown outcomes`
  const what = budget > 0 ? `at most ${budget}: ${kinds}` : 'none'
  return `| ${name} | ${how.join(', ')} | ${what} | ${complete ? 'yes' : 'no'} | ${size} | ${seen} | \`${by}\` |`
}
