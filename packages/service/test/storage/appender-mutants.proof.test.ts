import { expect, test } from 'vitest'
import { expectAppenderExplorationFinds } from '../simulation/appender/find-mutant.ts'
import { exploreAppender } from '../simulation/appender/index.ts'
import { appenderMutants, mutantStates } from '../simulation/appender/mutants.ts'

test.each(appenderMutants)(
  'model checking finds the mutant "$name"',
  { timeout: 300_000 },
  expectAppenderExplorationFinds,
)

const circumstances = [...new Set(appenderMutants.map((mutant) => JSON.stringify(mutant.in)))]

test.each(circumstances)(
  'model checking reports no violation of the real appender with %s',
  { timeout: 300_000 },
  async (options) => {
    const { violation, story } = await exploreAppender({ ...JSON.parse(options), states: mutantStates })
    expect(violation?.what, story.join('\n')).toBeUndefined()
  },
)
