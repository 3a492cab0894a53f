import { expect, test } from 'vitest'
import { expectDocumentExplorationFinds } from '../simulation/document/find-mutant.ts'
import { exploreDocument } from '../simulation/document/index.ts'
import { documentMutants, documentMutantStates } from '../simulation/document/mutants.ts'

test.each(documentMutants)(
  'the model checker detects a relay that would $name',
  { timeout: 600_000 },
  expectDocumentExplorationFinds,
)

const circumstances = [...new Set(documentMutants.map((mutant) => JSON.stringify(mutant.in)))]

test.each(circumstances)(
  'the model checker finds no violation in the real relay for spec-only candidates with the options %s',
  { timeout: 600_000 },
  async (options) => {
    const { violation, story } = await exploreDocument({ ...JSON.parse(options), states: documentMutantStates })
    expect(violation?.what, story.join('\n')).toBeUndefined()
  },
)
