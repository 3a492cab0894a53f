import { changeOf, termOf, type Assignment } from './assignment.ts'
import type { ShardMember } from './changes.ts'

/** A shard that is between two owners. */
export interface MovingShard {
  readonly shard: number
  /** The name of the shard. Undefined if shards have only numbers. */
  readonly name: string | undefined
  /**
   * `revoked`: its owner must stop its work first. `free`: it is granted next. `unknown`: the coordinator first finds out
   * who may own it.
   */
  readonly state: 'revoked' | 'free' | 'unknown'
  /** The identity of the process that must stop its work. Undefined if there is none, or if it is not known. */
  readonly from: string | undefined
}

/** What a process knows about its group. */
export interface ShardsStatus {
  readonly group: string
  readonly identity: string
  /**
   * `idle`: not started. `joining`: it has no seat. `joined`: it is a member. `leaving`: it hands its shards over.
   * `stopped`: it has left.
   */
  readonly phase: 'idle' | 'joining' | 'joined' | 'leaving' | 'stopped'
  /** The seat of this process. Undefined if it has none. */
  readonly seat: number | undefined
  /** The shards that this process owns now, by the clock. */
  readonly owned: readonly { readonly shard: number; readonly name: string | undefined; readonly token: number }[]
  /** The members that own shards or hand some over, with their loads, as last seen. */
  readonly members: readonly ShardMember[]
  /** The shards that nobody owns, as last seen. */
  readonly moving: readonly MovingShard[]
  /** The identity of the coordinator, as last seen. */
  readonly coordinator: string | undefined
  readonly isCoordinator: boolean
  /** The epoch of the newest assignment that was seen. Undefined before the first one. */
  readonly epoch: number | undefined
  /** One sentence about what the group is waiting for. */
  readonly why: string
}

/** Returns the shards that nobody owns. */
export function movingShards({ shards, settings }: Assignment, members: readonly ShardMember[]): MovingShard[] {
  return shards.flatMap((one, shard): MovingShard[] => {
    if (one.state === 'owned') return []
    const from = one.state === 'revoked' ? members.find(({ seat }) => seat === one.owner.seat)?.identity : undefined
    return [{ shard, name: settings.names?.[shard], state: one.state, from }]
  })
}

/** Says in one sentence what the group is waiting for. */
export function explainStatus({
  phase,
  epoch,
  moving,
  coordinator,
}: Pick<ShardsStatus, 'phase' | 'epoch' | 'moving' | 'coordinator'>): string {
  if (phase === 'idle') return 'This process has not been started.'
  if (phase === 'stopped') return 'This process has left the group.'
  if (phase === 'joining') return 'This process has no seat, so it owns no shards.'
  if (epoch === undefined) {
    return coordinator === undefined
      ? 'This process waits for a coordinator.'
      : `This process waits for the first assignment of the coordinator "${coordinator}".`
  }
  const count = (state: MovingShard['state']) => moving.filter((one) => one.state === state).length
  const [revoked, free, unknown] = [count('revoked'), count('free'), count('unknown')]
  if (unknown > 0) {
    return `The assignment was lost. The coordinator waits until no member can own one of the ${unknown} shards.`
  }
  const holders = [...new Set(moving.flatMap(({ from }) => (from === undefined ? [] : [`"${from}"`])))]
  if (revoked > 0) {
    const from = holders.length > 0 ? holders.join(', ') : 'their owners, or for the end of their leases'
    return `${revoked} ${revoked === 1 ? 'shard waits' : 'shards wait'} for ${from}.`
  }
  if (free > 0) return `${free} ${free === 1 ? 'shard is' : 'shards are'} free, and the coordinator grants them next.`
  return `All shards are owned, by change ${changeOf(epoch)} of term ${termOf(epoch)}.`
}
