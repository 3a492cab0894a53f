import { test } from 'vitest'
import { expectShardMutantFound } from './find-mutant.ts'
import { shardMutations } from './mutants.ts'

test.each(shardMutations)(
  'a check or the model checker finds the shard mutant: $name',
  { timeout: 600_000 },
  expectShardMutantFound,
)
