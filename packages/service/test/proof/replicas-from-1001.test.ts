import { test } from 'vitest'
import { runWorlds } from '../simulation/run-worlds.ts'

test('100 other clusters of three replicas never break a promise', { timeout: 900_000 }, () => runWorlds(1_001, 100))
