// What is explored, and by which command. `npm run explore` runs everything and writes the table of
// docs/explanation/exploration.md; each test suite runs its share.

import { exploredFaults } from 'tenure/simulation'

/** @typedef {import('tenure/simulation').ExploreOptions} ExploreOptions */
/** @typedef {{ readonly name: string, readonly by: 'npm test' | 'npm run test:all' | 'npm run explore', readonly options: ExploreOptions }} Exploration */

/** Ticks of a sixth of the lease: renewal after 2, deadline after 4, retry after 1. */
const coarse = { leaseTicks: 6, seconds: 3_600 }
const fine = { ...coarse, leaseTicks: 12 }
const finest = { ...coarse, leaseTicks: 24 }
const poll = { watch: false }

/** All kinds of fault for stores without a watch. */
const unwatched = exploredFaults.filter((kind) => !kind.startsWith('watch-'))

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
    options: { ...coarse, faults: exploredFaults },
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
    name: 'two electors that watch, in finer time',
    by: 'npm run explore',
    options: { ...fine, faults: exploredFaults },
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
 * @param {import('tenure/simulation').ExploreReport} report
 */
export function rowOf({ name, by, options }, { complete, states, transitions, counts }) {
  const { electors = 2, budget = 1, watch = true, expiry = 'observed', leaseTicks = 12, faults = [] } = options
  const { delayTicks, rates, jitter } = options
  const how = [
    `${electors} electors`,
    watch ? 'watch' : 'poll',
    expiry,
    `${leaseTicks} ticks`,
    ...(delayTicks ? [`delay 0 to ${delayTicks}`] : []),
    ...(rates ? [`rates ${rates.join(', ')}`] : []),
    ...(jitter ? [`jitter ${jitter.join(', ')}`] : []),
  ]
  const kinds = faults.length >= unwatched.length ? 'any kind' : faults.join(', ')
  const size = `${states.toLocaleString('en')} states, ${transitions.toLocaleString('en')} transitions`
  const seen = `${counts.handovers} handovers, ${counts.expiries} expiries, ${counts.unknownOutcomes} unknown outcomes`
  const what = budget > 0 ? `at most ${budget}: ${kinds}` : 'none'
  return `| ${name} | ${how.join(', ')} | ${what} | ${complete ? 'yes' : 'no'} | ${size} | ${seen} | \`${by}\` |`
}
