import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { rowOf, type Exploration } from '../../../../scripts/explorations.js'
import { explore } from '../../src/simulation/explore.ts'

const page = readFileSync(join(import.meta.dirname, '../../../../docs/explanation/exploration.md'), 'utf8')

/** Explores, which must be complete and silent, use each kind of fault, and give the row that the page shows. */
export async function expectCovered(exploration: Exploration): Promise<void> {
  const report = await explore(exploration.options)
  expect(report.ok && report.complete, String(report)).toBe(true)
  const { faults = [] } = exploration.options
  expect(Object.keys(report.counts.faults).toSorted()).toEqual([...faults].toSorted())
  expect(page.split('\n'), 'the table was made by `npm run explore`').toContain(rowOf(exploration, report))
}
