import { test } from 'vitest'
import { runWorlds } from '../simulation/run-worlds.ts'

test('150 clusters never have two leaders, and one again after every fault', { timeout: 900_000 }, () =>
  runWorlds(1, 50),
)
