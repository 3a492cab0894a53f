import { test } from 'vitest'
import { engineMutants } from '../simulation/engine-mutants.ts'
import { expectSimulatorFinds } from '../simulation/find-engine-mutant.ts'

test.each(engineMutants)('the simulator detects the engine mutant: $name', { timeout: 300_000 }, expectSimulatorFinds)
