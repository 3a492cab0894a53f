import { test } from 'vitest'
import { expectReplicasFind } from '../simulation/find-replica-mutant.ts'
import { replicaMutants } from '../simulation/replica-mutants.ts'
import { runWorlds } from '../simulation/run-worlds.ts'

test('20 clusters of three replicas never break an invariant', { timeout: 120_000 }, () => runWorlds(501, 20))

test.each(replicaMutants.slice(0, 3))(
  'the simulation finds the mutant "$name"',
  { timeout: 120_000 },
  expectReplicasFind,
)
