import { fakeClock } from '../../../testing/src/index.ts'
import { createShards, type Shards } from '../../src/shards/index.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'

/** A shard's token under its first owner, and under the next one. */
export interface ShardTokens {
  readonly old: number
  readonly next: number
}

/**
 * Returns the tokens that two processes got for the same shard, one after the other, in virtual time. The first one has
 * left, so a write with its token is late.
 */
export async function tokensOfTwoOwners(): Promise<ShardTokens> {
  const clock = fakeClock()
  const store = memoryStore({ clock })
  const join = () => createShards({ store, group: 'fenced', shards: 1, clock, log: false })
  const tokenOf = async (shards: Shards) => {
    void shards.start()
    for (let waits = 0; waits < 1_000; waits += 1) {
      const owned = shards.owns('any key')
      if (owned) return owned.token
      await clock.advance(100)
    }
    throw new Error(shards.status().why)
  }
  const first = join()
  const old = await tokenOf(first)
  const second = join()
  const left = first.stop()
  const next = await tokenOf(second)
  await Promise.all([left, clock.advance(1_000)])
  const ended = second.stop()
  await Promise.all([ended, clock.advance(1_000)])
  return { old, next }
}
