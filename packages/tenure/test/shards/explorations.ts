import { expect } from 'vitest'
import { exploreShards, type ShardOptions } from './explore/index.ts'
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

/** Explored by `npm run test:all`. */
export const completeExplorations: readonly ShardExploration[] = [
  { name: 'two processes and any one fault', options: { faults: shardFaults } },
  {
    name: 'two processes and two faults: a move and deletion of the group',
    options: { budget: 2, faults: ['move', 'delete-group'] },
  },
]

/** Explores the rules. The exploration must be complete, find no violation, and use each kind of fault. */
export async function expectShardsCovered({ options }: ShardExploration): Promise<void> {
  const report = await exploreShards(options)
  if (process.env['MUTANTS_VERBOSE']) console.log(options, report.states, report.transitions, report.counts)
  expect(report.violation?.what, report.story.join('\n')).toBeUndefined()
  expect(report.complete).toBe(true)
  expect(Object.keys(report.counts.faults).toSorted()).toEqual([...options.faults].toSorted())
}
