import { expect } from 'vitest'
import { exploreShards, walkShards, type ShardOptions } from './explore/index.ts'
import { shardFaults } from './explore/scene.ts'

/** An exploration that must be complete. */
export interface ShardExploration {
  readonly name: string
  readonly options: ShardOptions
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
  { name: 'two processes and any one fault', options: { faults: shardFaults } },
  {
    name: 'two processes that observe seats before they are elected, and any one fault',
    options: { faults: shardFaults, observesEarly: true },
  },
  {
    name: 'two processes and two faults: a move and deletion of the group',
    options: { budget: 2, faults: ['move', 'delete-group'] },
  },
]

/** Explored with `TENURE_EXPLORE=all`. They take seven minutes. */
export const explorationsByHand: readonly ShardExploration[] = [
  { name: 'three processes and any one fault', options: { processes: 3, faults: shardFaults } },
  { name: 'two processes and any two faults', options: { budget: 2, faults: shardFaults } },
]

/** Explores the rules. The exploration must be complete, find no violation, and use each kind of fault. */
export async function expectShardsCovered({ options }: ShardExploration): Promise<void> {
  const report = await exploreShards(options)
  if (process.env['TENURE_EXPLORE']) console.log(options, report.states, report.transitions, report.counts)
  expect(report.violation?.what, report.story.join('\n')).toBeUndefined()
  expect(report.complete).toBe(true)
  expect(Object.keys(report.counts.faults).toSorted()).toEqual([...options.faults].toSorted())
}

/** Walks at random. No walk may break a rule, and the shard must get an owner again from every sampled state. */
export function expectShardsWalked({ options }: (typeof sampledWalks)[number]): void {
  const report = walkShards(options)
  expect(report.violation?.what, report.story.join('\n')).toBeUndefined()
  expect(report.walks).toBe(options.walks)
  expect(report.faults).toBeGreaterThan(2 * options.walks)
  expect(report.settled).toBeGreaterThan(options.walks)
}
