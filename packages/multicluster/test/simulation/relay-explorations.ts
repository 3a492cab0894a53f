import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { exploreRelays, type ExploredRelays } from './explored-relays.ts'
import type { ExploreReport } from '../../../testing/src/simulation/explore.ts'

/** An exploration that must be complete, and the command that runs it. */
interface RelayExploration {
  readonly name: string
  readonly by: 'npm test' | 'npm run test:all'
  readonly options: ExploredRelays
}

const coarse = { leaseTicks: 6 }
const all = 'npm run test:all'

export const relayExplorations: readonly RelayExploration[] = [
  {
    name: 'a relay in each of two clusters; crashes and deleted records',
    by: 'npm test',
    options: { ...coarse, faults: ['crash', 'deleted-record'] },
  },
  {
    name: 'a relay in each of two clusters; other faults of candidates and records',
    by: all,
    options: { ...coarse, faults: ['stall', 'stop', 'step-down', 'touched-record', 'lost-swap'] },
  },
  {
    name: 'a relay in each of two clusters; calls that are late, lost, or duplicated',
    by: all,
    options: { ...coarse, faults: ['late', 'lost', 'doubled'] },
  },
  { name: 'relays that crash', by: all, options: { ...coarse, faults: ['relay-crash'] } },
  { name: 'relays that stall', by: all, options: { ...coarse, faults: ['relay-stall'] } },
  { name: 'relays that sleep', by: all, options: { ...coarse, faults: ['relay-sleep'] } },
  {
    name: 'relays that watch the store',
    by: all,
    options: {
      ...coarse,
      relaysWatch: true,
      faults: ['crash', 'deleted-record', 'relay-watch-end', 'relay-watch-replay'],
    },
  },
  {
    name: 'two relays in one of two clusters, either of which may answer',
    by: all,
    options: { ...coarse, relaysOf: [[0, 1], [2]], faults: ['crash', 'doubled'] },
  },
  {
    name: 'two candidates behind one relay',
    by: all,
    options: { ...coarse, relaysOf: [[0], [0]], faults: ['crash', 'deleted-record'] },
  },
]

const page = readFileSync(join(import.meta.dirname, '../../../../docs/explanation/exploration.md'), 'utf8')

/**
 * Runs an exploration. It must be complete, find no violation, use each kind of fault, and match its row in the
 * documentation.
 */
export async function expectRelaysCovered(exploration: RelayExploration): Promise<void> {
  const report = await exploreRelays(exploration.options)
  expect(report.ok && report.complete, String(report)).toBe(true)
  expect(Object.keys(report.counts.faults).toSorted()).toEqual([...exploration.options.faults].toSorted())
  const row = rowOf(exploration, report)
  expect(page.split('\n').includes(row), `the page must contain: ${row}`).toBe(true)
}

function rowOf({ name, by, options }: RelayExploration, { states, transitions, counts }: ExploreReport): string {
  const size = `${states.toLocaleString('en')} states, ${transitions.toLocaleString('en')} transitions`
  const seen = `${counts.grants} grants, ${counts.handovers} handovers, ${counts.expiries} expiries`
  return `| ${name} | ${options.faults.join(', ')} | ${size} | ${seen} | \`${by}\` |`
}
