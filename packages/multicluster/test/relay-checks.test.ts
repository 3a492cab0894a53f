import { describe, test } from 'vitest'
import { Relay } from '../src/relay.ts'
import { relayChecks } from './relay-checks.ts'

describe('of the relay it holds that', () => {
  for (const [name, check] of Object.entries(relayChecks)) test(name, () => check({ Relay }))
})
