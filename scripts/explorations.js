// What is explored, and by which command: `npm run explore` runs all of it and writes the table of
// docs/explanation/exploration.md; tests run their share.

/** @typedef {import('tenure/simulation').ExploreOptions} ExploreOptions */
/** @typedef {{ readonly name: string, readonly by: 'npm test' | 'npm run test:all' | 'npm run explore', readonly options: ExploreOptions }} Exploration */

/** Time in ticks of a sixth of the lease: renewal 2, deadline 4, retry 1. */
const coarse = { leaseTicks: 6, seconds: 3_600 }

/** @type {readonly Exploration[]} */
export const explorations = [
  {
    name: 'two electors that poll; processes and records',
    by: 'npm test',
    options: {
      ...coarse,
      watch: false,
      faults: ['crash', 'stop', 'step-down', 'touched-record', 'deleted-record', 'lost-swap'],
    },
  },
  {
    name: 'two electors that watch; calls and watches',
    by: 'npm test',
    options: { ...coarse, faults: ['lost', 'failed', 'watch-end', 'watch-replay'] },
  },
  {
    name: 'two electors that poll; all else',
    by: 'npm run test:all',
    options: { ...coarse, watch: false, faults: ['late', 'lost', 'doubled', 'failed', 'stall', 'sleep'] },
  },
  {
    name: 'two electors that watch; stalls, sleep and crashes',
    by: 'npm run test:all',
    options: { ...coarse, faults: ['stall', 'sleep', 'crash'] },
  },
  {
    name: 'two electors that watch; all else',
    by: 'npm run test:all',
    options: {
      ...coarse,
      faults: ['late', 'doubled', 'step-down', 'stop', 'touched-record', 'deleted-record', 'lost-swap'],
    },
  },
  {
    name: 'a store that judges by its own clock, polled',
    by: 'npm run test:all',
    options: { ...coarse, watch: false, expiry: 'own-clock', faults: ['crash', 'stall', 'deleted-record', 'lost'] },
  },
  {
    name: 'two electors that poll; two crashes or lost calls',
    by: 'npm run test:all',
    options: { ...coarse, watch: false, budget: 2, faults: ['crash', 'lost'] },
  },
  {
    name: 'clocks an eighth too slow and too fast',
    by: 'npm run explore',
    options: { ...coarse, watch: false, rates: [0.875, 1.125], faults: ['crash', 'stall'] },
  },
  {
    name: 'time in twelfths of the lease; crashes and lost calls',
    by: 'npm run explore',
    options: { ...coarse, leaseTicks: 12, watch: false, faults: ['crash', 'lost', 'deleted-record'] },
  },
  {
    name: 'three electors that poll; crashes',
    by: 'npm run explore',
    options: { ...coarse, electors: 3, watch: false, faults: ['crash'] },
  },
  {
    name: 'two electors that poll; three faults of processes',
    by: 'npm run explore',
    options: { ...coarse, watch: false, budget: 3, faults: ['crash', 'stop'] },
  },
]

/**
 * A row of the table.
 *
 * @param {Exploration} exploration
 * @param {import('tenure/simulation').ExploreReport} report
 */
export function rowOf({ name, by, options }, { complete, states, transitions, counts }) {
  const { electors = 2, budget = 1, watch = true, expiry = 'observed', leaseTicks = 12, faults = [] } = options
  const how = `${electors} electors, ${watch ? 'watch' : 'poll'}, ${expiry}, ${leaseTicks} ticks`
  const size = `${states.toLocaleString('en')} states, ${transitions.toLocaleString('en')} transitions`
  const seen = `${counts.handovers} hand-overs, ${counts.expiries} expiries, ${counts.unknownOutcomes} unknown outcomes`
  return `| ${name} | ${how} | at most ${budget}: ${faults.join(', ')} | ${complete ? 'yes' : 'no'} | ${size} | ${seen} | \`${by}\` |`
}
