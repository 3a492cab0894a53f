import { test } from 'vitest'
import { runWorlds } from '../simulation/run-worlds.ts'

test('clusters of three replicas with the seeds 1001 to 1100 never break an invariant', { timeout: 900_000 }, () =>
  runWorlds(1_001, 100),
)
