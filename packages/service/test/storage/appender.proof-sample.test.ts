import { test } from 'vitest'
import { appenderExplorations, expectAppenderCovered } from '../simulation/appender/explorations.ts'
import { expectAppenderExplorationFinds } from '../simulation/appender/find-mutant.ts'
import { appenderMutants } from '../simulation/appender/mutants.ts'

const own = appenderExplorations.filter(({ by }) => by === 'npm test')

test.each(own)('every order of appends is safe with $name', { timeout: 300_000 }, expectAppenderCovered)

test.each(appenderMutants.filter((_, index) => index % 5 === 0))(
  'model checking finds the mutant "$name"',
  { timeout: 120_000 },
  expectAppenderExplorationFinds,
)
