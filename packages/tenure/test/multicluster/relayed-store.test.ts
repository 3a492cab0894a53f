import { describe, test } from 'vitest'
import { relayedStore } from '../../src/multicluster/relayed-store.ts'
import { checks } from './checks.ts'

describe('the lock across clusters', () => {
  for (const [name, check] of Object.entries(checks)) test(name, () => check({ relayedStore }))
})
