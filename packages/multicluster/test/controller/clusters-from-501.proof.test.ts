import { test } from 'vitest'
import { runWorlds } from '../simulation/run-worlds.ts'

test(
  '150 simulated worlds from seed 501 never have two leaders, and have a leader again after every fault',
  { timeout: 900_000 },
  () => runWorlds(501, 50),
)
