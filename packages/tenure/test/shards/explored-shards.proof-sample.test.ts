import { test } from 'vitest'
import { sampledExplorations, expectShardsCovered } from './explorations.ts'

test.each(sampledExplorations)(
  'the model checker finds no violation of the rules for shards in: $name',
  { timeout: 60_000 },
  expectShardsCovered,
)
