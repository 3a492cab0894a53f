import type { AssignmentReport, ShardOrigin, UnownedState } from './changes.ts'
import { livingMembers, type CoordinatorState } from './coordinator.ts'

/** The states of a shard that has no owner. */
const unownedStates = ['revoked', 'free', 'unknown', 'orphaned'] as const satisfies readonly UnownedState[]

/** Measures, for one coordinator, how long each shard has been without an owner. Nothing is decided by it. */
export class UnownedShards {
  readonly #sinceMs = new Map<number, number>()

  /** Returns what the coordinator sees now. Only the newest confirmed assignment counts. */
  report(state: CoordinatorState, nowMs: number): Omit<AssignmentReport, keyof ShardOrigin> {
    const living = livingMembers(state, nowMs)
    const attempts = new Set(living.map(({ member }) => member.attempt))
    const [unowned, longestUnownedMs] = [zeros(), zeros()]
    for (const [number, shard] of state.confirmed.shards.entries()) {
      const isOwned = shard.state === 'owned' && attempts.has(shard.owner.attempt)
      if (isOwned) {
        this.#sinceMs.delete(number)
        continue
      }
      const sinceMs = this.#sinceMs.get(number) ?? nowMs
      this.#sinceMs.set(number, sinceMs)
      const kind = shard.state === 'owned' ? 'orphaned' : shard.state
      unowned[kind] += 1
      longestUnownedMs[kind] = Math.max(longestUnownedMs[kind], nowMs - sinceMs)
    }
    const owned = state.confirmed.shards.length - this.#sinceMs.size
    return { members: living.length, owned, unowned, longestUnownedMs }
  }
}

function zeros(): Record<UnownedState, number> {
  return Object.fromEntries(unownedStates.map((state) => [state, 0])) as Record<UnownedState, number>
}
