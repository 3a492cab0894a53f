import { test } from 'vitest'
import { expectConformanceFinds } from '../conformance/find-store-mutant.ts'
import { storeMutations } from '../conformance/store-mutants.ts'
import { engineMutants } from './engine-mutants.ts'
import { expectSimulatorFinds } from './find-engine-mutant.ts'
import { everydayShare } from './everyday-share.ts'

test.each(everydayShare(engineMutants))(
  'the simulator detects the engine mutant: $name',
  { timeout: 300_000 },
  expectSimulatorFinds,
)

test.each(everydayShare(storeMutations))(
  'the conformance suite detects the store mutant: $name',
  expectConformanceFinds,
)
