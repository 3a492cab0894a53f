import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { exploreSpecOnly, wideTimings, type SpecOnlyOptions, type SpecOnlyReport } from './index.ts'

/** An exploration that must be complete, and the command that runs it. */
interface SpecOnlyExploration {
  readonly name: string
  readonly by: 'npm test' | 'npm run test:all'
  readonly options: SpecOnlyOptions
}

const all = 'npm run test:all'
const short = { leaseTicks: 2, deadlineTicks: 1 }
const twoRelays = [
  { cluster: 0, isFirst: true },
  { cluster: 0, isFirst: false },
]

export const specOnlyExplorations: readonly SpecOnlyExploration[] = [
  {
    name: 'a candidate and a relay in each of two clusters',
    by: 'npm test',
    options: { faults: ['lost', 'stop', 'deleted-record'] },
  },
  {
    name: 'a candidate and a relay in each of two clusters; other faults of candidates; a lease of 2 ticks',
    by: all,
    options: { ...short, faults: ['crash', 'stall', 'replaced', 'taken-over'] },
  },
  { name: 'relays that crash', by: all, options: { faults: ['relay-crash'] } },
  {
    name: 'relays that stall; candidates that believe for 7 ticks with a lease of 5',
    by: all,
    options: { ...wideTimings, faults: ['relay-stall'] },
  },
  { name: 'relays that sleep; a lease of 2 ticks', by: all, options: { ...short, faults: ['relay-sleep'] } },
  { name: 'late calls; a lease of 2 ticks', by: all, options: { ...short, faults: ['late'] } },
  {
    name: 'late writes of the status; a lease of 2 ticks',
    by: all,
    options: { ...short, faults: ['late-write'] },
  },
  {
    name: 'a store that decides expiry by its own clock; a lease of 2 ticks',
    by: all,
    options: { ...short, expiry: 'own-clock', faults: ['crash', 'stop', 'replaced'] },
  },
  {
    name: 'relays that poll the store at any time; a lease of 2 ticks',
    by: all,
    options: { ...short, looks: true, faults: ['crash'] },
  },
  {
    name: 'two candidates and two relays of one resource',
    by: all,
    options: { candidates: [0, 0], relays: twoRelays, budget: 0, faults: [] },
  },
  {
    name: 'a candidate and two relays of one resource',
    by: all,
    options: { candidates: [0], relays: twoRelays, faults: ['unheard'] },
  },
  {
    name: 'candidates that keep waiting after a refusal and are served again; relays that poll the store',
    by: all,
    options: { waitsOn: true, looks: true, waitTicks: 3, faults: ['stop', 'crash'] },
  },
  {
    name: 'candidates that keep waiting; late calls; a lease of 2 ticks',
    by: all,
    options: { ...short, waitsOn: true, faults: ['late'] },
  },
  {
    name: 'candidates that keep waiting; relays that stall; a lease of 2 ticks',
    by: all,
    options: { ...short, waitsOn: true, faults: ['relay-stall'] },
  },
  {
    name: 'candidates that keep waiting, and two relays of one resource; a lease of 2 ticks',
    by: all,
    options: { ...short, candidates: [0], waitsOn: true, relays: twoRelays, faults: ['taken-over', 'late'] },
  },
]

const page = readFileSync(join(import.meta.dirname, '../../../../../docs/explanation/exploration.md'), 'utf8')

/**
 * Runs an exploration. It must be complete, find no violation, use each kind of fault, and match its row in the
 * documentation.
 */
export async function expectSpecOnlyCovered(exploration: SpecOnlyExploration): Promise<void> {
  const report = await exploreSpecOnly(exploration.options)
  expect(report.violation?.what, report.story.join('\n')).toBeUndefined()
  expect(report.complete).toBe(true)
  expect(Object.keys(report.counts.faults).toSorted()).toEqual([...exploration.options.faults].toSorted())
  const row = rowOf(exploration, report)
  expect(page.split('\n').includes(row), `the page must contain: ${row}`).toBe(true)
}

function rowOf({ name, by, options }: SpecOnlyExploration, { states, transitions, counts }: SpecOnlyReport): string {
  const size = `${states.toLocaleString('en')} states, ${transitions.toLocaleString('en')} transitions`
  const seen = `${counts.grants} grants, ${counts.handovers} handovers, ${counts.confirmations} confirmations`
  return `| ${name} | ${options.faults.join(', ') || 'none'} | ${size} | ${seen} | \`${by}\` |`
}
