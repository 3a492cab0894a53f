import { describe, test } from 'vitest'
import { relayedStore } from '../../src/multicluster/relayed-store.ts'
import { checks } from './checks.ts'

describe('of the lock it holds that', () => {
  for (const [name, check] of Object.entries(checks)) test(name, () => check({ relayedStore }))
})
