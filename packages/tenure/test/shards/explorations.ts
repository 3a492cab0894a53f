import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { exploreShards, walkShards, type ShardOptions, type ShardReport } from './explore/index.ts'
import { shardFaults } from './explore/scene.ts'

const page = readFileSync(join(import.meta.dirname, '../../../../docs/explanation/exploration.md'), 'utf8')

/** An exploration that must be complete. */
export interface ShardExploration {
  readonly name: string
  readonly options: ShardOptions
  /** The command in its row on the page about model checking. Undefined if it has no row. */
  readonly by?: '`npm run test:all`' | 'by hand'
}

/** Explored by `npm test`. */
export const sampledExplorations: readonly ShardExploration[] = [
  { name: 'two processes; a move', options: { faults: ['move'] } },
  { name: 'two processes; deletion of the group', options: { faults: ['delete-group'] } },
]

/** Walks of `npm run test:all`. Each walk injects up to three faults of any kind. */
export const sampledWalks = [
  { name: 'terms are kept', keepsTerms: true },
  { name: 'terms are forgotten', keepsTerms: false },
].map(({ name, keepsTerms }) => ({
  name,
  options: { processes: 3, budget: 3, keepsTerms, faults: shardFaults, seed: 1, walks: 150 },
}))

/** Explored by `npm run test:all`. */
export const completeExplorations: readonly ShardExploration[] = [
  { name: 'two processes', options: { faults: shardFaults }, by: '`npm run test:all`' },
  {
    name: 'two processes that observe the seats before they are elected',
    options: { faults: shardFaults, observesEarly: true },
    by: '`npm run test:all`',
  },
  {
    name: 'two processes; terms are forgotten',
    options: { faults: shardFaults, keepsTerms: false },
    by: '`npm run test:all`',
  },
  {
    name: 'two processes that observe the seats before they are elected; terms are forgotten',
    options: { faults: shardFaults, observesEarly: true, keepsTerms: false },
    by: '`npm run test:all`',
  },
  {
    name: 'two processes and two faults: a move and deletion of the group',
    options: { budget: 2, faults: ['move', 'delete-group'] },
  },
]

/** Explored with `TENURE_EXPLORE=all`. They take a quarter of an hour. */
export const explorationsByHand: readonly ShardExploration[] = [
  { name: 'three processes', options: { processes: 3, faults: shardFaults }, by: 'by hand' },
  { name: 'two processes', options: { budget: 2, faults: shardFaults }, by: 'by hand' },
  {
    name: 'two processes; terms are forgotten',
    options: { budget: 2, faults: shardFaults.filter((fault) => fault !== 'delete-seat'), keepsTerms: false },
    by: 'by hand',
  },
]

/**
 * Explores the rules. The exploration must be complete, find no violation, use each kind of fault, and match its row on
 * the page.
 */
export async function expectShardsCovered(exploration: ShardExploration): Promise<void> {
  const { options, by } = exploration
  const report = await exploreShards(options)
  if (process.env['TENURE_EXPLORE']) console.log(options, report.states, report.transitions, report.counts)
  expect(report.violation?.what, report.story.join('\n')).toBeUndefined()
  expect(report.complete).toBe(true)
  expect(Object.keys(report.counts.faults).toSorted()).toEqual([...options.faults].toSorted())
  if (by === undefined) return
  const row = rowOf(exploration, report)
  expect(page.split('\n'), `The table of groups of shards must have this row:\n${row}\n`).toContain(row)
}

function rowOf({ name, options, by }: ShardExploration, { states, transitions }: ShardReport): string {
  const size = `${states.toLocaleString('en')} states, ${transitions.toLocaleString('en')} transitions`
  const missing = shardFaults.filter((fault) => !options.faults.includes(fault))
  const kinds = missing.length === 0 ? 'any kind' : `any kind but ${missing.join(', ')}`
  return `| ${name} | at most ${options.budget ?? 1}: ${kinds} | yes | ${size} | ${by} |`
}

/** Walks at random. No walk may break a rule, and the shard must get an owner again from every sampled state. */
export function expectShardsWalked({ options }: (typeof sampledWalks)[number]): void {
  const report = walkShards(options)
  expect(report.violation?.what, report.story.join('\n')).toBeUndefined()
  expect(report.walks).toBe(options.walks)
  expect(report.faults).toBeGreaterThan(2 * options.walks)
  expect(report.settled).toBeGreaterThan(options.walks)
}
