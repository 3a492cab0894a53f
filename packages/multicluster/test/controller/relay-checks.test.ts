import { describe, test } from 'vitest'
import { Relay } from '../../src/relay/relay.ts'
import { relayChecks } from '../relay-checks.ts'

describe('the relay', () => {
  for (const [name, check] of Object.entries(relayChecks)) test(name, () => check({ Relay }))
})
