import { test } from 'vitest'
import { runWorlds } from '../simulation/run-worlds.ts'

test('100 clusters of three replicas never break an invariant', { timeout: 900_000 }, () => runWorlds(1, 100))
