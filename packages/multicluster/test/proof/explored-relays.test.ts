import { test } from 'vitest'
import { expectRelaysCovered, relayExplorations } from '../simulation/relay-explorations.ts'

const own = relayExplorations.filter(({ by }) => by === 'npm run test:all')

test.each(own)('every behaviour is sound: $name', { timeout: 900_000 }, expectRelaysCovered)
