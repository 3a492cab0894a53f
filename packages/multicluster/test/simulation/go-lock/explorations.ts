import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { exploreLock, type LockOptions, type LockReport } from './index.ts'
import type { LockMistake } from './scene.ts'

/** An exploration that must be complete, and the command that runs it. */
interface LockExploration {
  readonly name: string
  readonly by: 'npm test' | 'npm run test:all'
  readonly options: LockOptions
}

const all = 'npm run test:all'

export const lockExplorations: readonly LockExploration[] = [
  {
    name: 'two candidates in one cluster and one in another',
    by: 'npm test',
    options: { faults: ['crash', 'stop'] },
  },
  {
    name: 'two candidates in one cluster and one in another; candidates that stall',
    by: all,
    options: { faults: ['stall'] },
  },
  {
    name: 'two candidates in one cluster and one in another; late, lost, or duplicated requests and answers',
    by: all,
    options: { faults: ['late', 'lost', 'unheard', 'doubled'] },
  },
  {
    name: 'one candidate in each of two clusters; two faults',
    by: all,
    options: { candidates: [0, 1], budget: 2, faults: ['late', 'unheard', 'doubled', 'stall', 'stop'] },
  },
  {
    name: 'one candidate in each of two clusters; a lease of 4 ticks and a bound of 2',
    by: all,
    options: { candidates: [0, 1], leaseTicks: 4, boundTicks: 2, faults: ['late', 'unheard', 'stall', 'stop'] },
  },
]

/** A mistake of a lock, and the options with which the model checker must detect it. */
export interface LockMutant {
  readonly name: LockMistake
  readonly in: Omit<LockOptions, 'states' | 'mistake'>
}

/** The limit of states within which the model checker must detect a mistake. */
export const lockMutantStates = 30_000

export const lockMutants: readonly LockMutant[] = [
  { name: 'ignore the bound', in: { faults: ['stall'] } },
  { name: 'count a grant that a repeated request found', in: { faults: ['unheard'] } },
  { name: 'keep the attempt after a release', in: { candidates: [0, 1], budget: 2, faults: ['late', 'stop'] } },
  { name: 'count a refusal that shows its own lease', in: { faults: ['stall'] } },
  { name: 'take the lease for one duration without the bound', in: { faults: ['stall'] } },
]

const page = readFileSync(join(import.meta.dirname, '../../../../../docs/explanation/exploration.md'), 'utf8')

/**
 * Runs an exploration. It must be complete, find no violation, use each kind of fault, and match its row in the
 * documentation.
 */
export async function expectLockCovered(exploration: LockExploration): Promise<void> {
  const report = await exploreLock(exploration.options)
  expect(report.violation?.what, report.story.join('\n')).toBeUndefined()
  expect(report.complete).toBe(true)
  expect(Object.keys(report.counts.faults).toSorted()).toEqual([...exploration.options.faults].toSorted())
  const row = rowOf(exploration, report)
  expect(page.split('\n').includes(row), `the page must contain: ${row}`).toBe(true)
}

/**
 * Explores a mutant of the lock until it violates a rule, and fails if it never does. With the same options, the real
 * lock must not violate any rule.
 */
export async function expectLockMistakeFound({ name, in: options }: LockMutant): Promise<void> {
  const bounded = { ...options, states: lockMutantStates }
  const { violation, states } = await exploreLock({ ...bounded, mistake: name })
  expect(violation?.what ?? 'no rule is broken', `"${name}" survived ${states} states`).toMatch(/^I\d+: /)
  const real = await exploreLock(bounded)
  expect(real.violation?.what, real.story.join('\n')).toBeUndefined()
}

function rowOf({ name, by, options }: LockExploration, { states, transitions, counts }: LockReport): string {
  const size = `${states.toLocaleString('en')} states, ${transitions.toLocaleString('en')} transitions`
  const seen = `${counts.grants} grants, ${counts.handovers} handovers`
  return `| ${name} | ${options.faults.join(', ')} | ${size} | ${seen} | \`${by}\` |`
}
