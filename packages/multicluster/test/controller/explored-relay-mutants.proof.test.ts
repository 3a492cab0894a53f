import { expect, test } from 'vitest'
import { exploredRelayMutants, relayMutantStates } from '../simulation/explored-relay-mutants.ts'
import { exploreRelays } from '../simulation/explored-relays.ts'
import { expectRelaysExplorationFinds } from '../simulation/find-explored-relay-mutant.ts'

test.each(exploredRelayMutants)(
  'the model checker detects the relay mutant: $name',
  { timeout: 600_000 },
  expectRelaysExplorationFinds,
)

const circumstances = [...new Set(exploredRelayMutants.map((mutant) => JSON.stringify(mutant.in)))]

test.each(circumstances)(
  'the model checker finds no violation in the real relay with the options %s',
  { timeout: 600_000 },
  async (options) => {
    const report = await exploreRelays({ ...JSON.parse(options), states: relayMutantStates })
    expect(report.ok, String(report)).toBe(true)
  },
)
