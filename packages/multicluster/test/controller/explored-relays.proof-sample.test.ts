import { test } from 'vitest'
import { exploredRelayMutants } from '../simulation/explored-relay-mutants.ts'
import { expectRelaysExplorationFinds } from '../simulation/find-explored-relay-mutant.ts'
import { expectRelaysCovered, relayExplorations } from '../simulation/relay-explorations.ts'

const own = relayExplorations.filter(({ by }) => by === 'npm test')

test.each(own)('the model checker finds no violation in: $name', { timeout: 300_000 }, expectRelaysCovered)

test.each(exploredRelayMutants.slice(0, 1))(
  'the model checker detects the relay mutant: $name',
  { timeout: 300_000 },
  expectRelaysExplorationFinds,
)
