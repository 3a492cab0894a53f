import { test } from 'vitest'
import { engineMutants } from './engine-mutants.ts'
import { expectSimulatorFinds } from './find-engine-mutant.ts'

test.each(engineMutants)('the simulator detects the engine mutant: $name', { timeout: 300_000 }, expectSimulatorFinds)
