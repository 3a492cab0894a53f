import { test } from 'vitest'
import { expectRelaysCovered, relayExplorations } from '../simulation/relay-explorations.ts'

const own = relayExplorations.filter(({ by }) => by === 'npm run test:all')

test.each(own)('the model checker finds no violation in: $name', { timeout: 900_000 }, expectRelaysCovered)
