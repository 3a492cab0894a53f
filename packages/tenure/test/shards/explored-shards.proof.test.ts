import { test } from 'vitest'
import { completeExplorations, expectShardsCovered } from './explorations.ts'

test.each(completeExplorations)(
  'the model checker finds no violation of the rules for shards in: $name',
  { timeout: 600_000 },
  expectShardsCovered,
)
