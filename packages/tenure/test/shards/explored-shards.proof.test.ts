import { test } from 'vitest'
import { completeExplorations, expectShardsCovered, expectShardsWalked, sampledWalks } from './explorations.ts'

test.each(completeExplorations)(
  'the model checker finds no violation of the rules for shards in: $name',
  { timeout: 600_000 },
  expectShardsCovered,
)

test.each(sampledWalks)(
  'random walks of three processes with three faults break no rule for shards where $name',
  { timeout: 600_000 },
  expectShardsWalked,
)
