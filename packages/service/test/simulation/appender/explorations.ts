import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { exploreAppender, type AppenderOptions, type AppenderReport } from './index.ts'
import { appenderFaults } from './scene.ts'

const page = readFileSync(join(import.meta.dirname, '../../../../../docs/explanation/exploration.md'), 'utf8')

/** The options of one model checking run, and the command that runs it. */
export interface AppenderExploration {
  readonly name: string
  readonly by: 'npm test' | 'npm run test:all'
  readonly options: AppenderOptions
}

export const appenderExplorations: readonly AppenderExploration[] = [
  {
    name: 'at most one fault',
    by: 'npm test',
    options: { replicas: 2, groups: 1, budget: 1, faults: appenderFaults },
  },
  {
    name: 'at most two faults',
    by: 'npm run test:all',
    options: { replicas: 2, groups: 1, budget: 2, faults: appenderFaults },
  },
  {
    name: 'at most one fault, and batches of two groups that are replaced one after another',
    by: 'npm run test:all',
    options: { replicas: 2, groups: 2, budget: 1, faults: appenderFaults },
  },
  {
    name: 'three replicas at once',
    by: 'npm run test:all',
    options: { replicas: 3, groups: 1, budget: 0, faults: [] },
  },
]

/**
 * Explores the model. The run must be complete, find no violation, use each kind of fault, and match its row on the
 * page.
 */
export async function expectAppenderCovered(exploration: AppenderExploration): Promise<void> {
  const report = await exploreAppender(exploration.options)
  expect(report.violation?.what, report.story.join('\n')).toBeUndefined()
  expect(report.complete).toBe(true)
  expect(Object.keys(report.counts.faults).toSorted()).toEqual([...exploration.options.faults].toSorted())
  const row = rowOf(exploration, report)
  expect(page.split('\n'), `The table of the appender must have this row:\n${row}\n`).toContain(row)
}

function rowOf({ name, by, options }: AppenderExploration, { states, transitions, counts }: AppenderReport): string {
  const { replicas, groups, budget, faults } = options
  const how = `${replicas} replicas, ${groups} ${groups === 1 ? 'group' : 'groups'}`
  const what = budget === 0 ? 'none' : `at most ${budget}: ${faults.join(', ')}`
  const size = `${states.toLocaleString('en')} states, ${transitions.toLocaleString('en')} transitions`
  const { done, unknown, fenced, replaced } = counts
  const seen = `${done} confirmed, ${unknown} unknown outcomes, ${fenced} fenced, ${replaced} replaced`
  return `| ${name} | ${how} | ${what} | yes | ${size} | ${seen} | \`${by}\` |`
}
