import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { rowOf, type Exploration } from '../../../../scripts/explorations.js'
import { explore } from '../../src/simulation/explore.ts'

const page = readFileSync(join(import.meta.dirname, '../../../../docs/explanation/exploration.md'), 'utf8')

/**
 * Runs an exploration. It must be complete, find no violation, use each kind of fault, and match its row in the
 * documentation.
 */
export async function expectCovered(exploration: Exploration): Promise<void> {
  const report = await explore(exploration.options)
  expect(report.ok && report.complete, String(report)).toBe(true)
  const { faults = [] } = exploration.options
  expect(Object.keys(report.counts.faults).toSorted()).toEqual([...faults].toSorted())
  expect(page.split('\n'), 'run `npm run explore` to update the table').toContain(rowOf(exploration, report))
}
