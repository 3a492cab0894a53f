/**
 * One line of a member's log: the shards that it owned at some moment between the two times, with their tokens. A shard
 * whose work had not settled counts as well while the member held its seat: until then nobody else may own it.
 */
export interface OwnerSample {
  readonly beforeUs: number
  readonly afterUs: number
  readonly owned: readonly (readonly [shard: number, token: number])[]
}

/** The time in which one process certainly owned a shard with one token. A token belongs to one grant. */
interface Ownership {
  readonly identity: string
  readonly shard: number
  readonly token: number
  readonly fromUs: number
  readonly toUs: number
}

/** What the logs of all processes show. */
export interface OwnersCheck {
  readonly violations: readonly string[]
  readonly grants: number
  /** The longest time between two owners of a shard. */
  readonly longestFreeMs: number
}

/** S1 and S2: the times of two owners of a shard never overlap, and each has a higher token than all before. */
export function checkOwners(logs: ReadonlyMap<string, readonly OwnerSample[]>): OwnersCheck {
  const all = new Map<string, Ownership>()
  for (const [identity, samples] of logs) {
    for (const { beforeUs, afterUs, owned } of samples) {
      for (const [shard, token] of owned) {
        const key = `${identity} ${shard} ${token}`
        const fromUs = all.get(key)?.fromUs ?? afterUs
        all.set(key, { identity, shard, token, fromUs, toUs: Math.max(fromUs, beforeUs) })
      }
    }
  }
  const violations: string[] = []
  let longestFreeUs = 0
  for (const shard of new Set([...all.values()].map((one) => one.shard))) {
    let previous: Ownership | undefined
    const owners = [...all.values()].filter((one) => one.shard === shard)
    for (const owner of owners.toSorted((one, other) => one.fromUs - other.fromUs)) {
      const text = () => `shard ${shard}: ${JSON.stringify(previous)}, then ${JSON.stringify(owner)}`
      if (previous && owner.fromUs <= previous.toUs) violations.push(`two owners of ${text()}`)
      if (previous && owner.token <= previous.token) violations.push(`the token does not rise for ${text()}`)
      if (previous) longestFreeUs = Math.max(longestFreeUs, owner.fromUs - previous.toUs)
      previous = owner
    }
  }
  return { violations, grants: all.size, longestFreeMs: longestFreeUs / 1_000 }
}
