import { test } from 'vitest'
import {
  completeExplorations,
  expectShardsCovered,
  expectShardsWalked,
  explorationsByHand,
  sampledWalks,
} from './explorations.ts'

const isWhole = process.env['TENURE_EXPLORE'] === 'all'

test.each([...completeExplorations, ...(isWhole ? explorationsByHand : [])])(
  'the model checker finds no violation of the rules for shards in: $name',
  { timeout: isWhole ? 3_600_000 : 600_000 },
  expectShardsCovered,
)

test.each(sampledWalks)(
  'random walks of three processes with three faults break no rule for shards where $name',
  { timeout: 600_000 },
  expectShardsWalked,
)
