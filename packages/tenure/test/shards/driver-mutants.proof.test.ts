import { expect, test } from 'vitest'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import { passes } from '../../../../test/mutants/passes-check.ts'
import { shardDriverMutations } from './driver-mutants.ts'

test.each(shardDriverMutations)(
  'a fleet in virtual time finds the mutant of the shards: $name',
  { timeout: 600_000 },
  async (mutation) => {
    const { scenes } = await loadMutant<{ scenes: typeof import('./driver-scenes.ts') }>(mutation, {
      scenes: '../test/shards/driver-scenes.ts',
    })
    const { caughtBy } = mutation
    expect(await passes(scenes.driverScenes[caughtBy]), `${caughtBy} passes`).toBe(false)
  },
)
