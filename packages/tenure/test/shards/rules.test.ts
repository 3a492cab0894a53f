import { expect, test } from 'vitest'
import * as balancing from '../../src/shards/balance.ts'
import * as coordinator from '../../src/shards/coordinator.ts'
import * as member from '../../src/shards/shard-member.ts'
import { checks } from './checks.ts'
import { shardMutations } from './mutants.ts'

test.each(Object.entries(checks))('%s', (_, check) => {
  check({ member, coordinator, balancing })
})

test('every mutant of the rules for shards names what finds it', () => {
  for (const { name, in: options, caughtBy } of shardMutations) {
    expect(Number(options !== undefined) + Number(caughtBy !== undefined), name).toBe(1)
  }
})
